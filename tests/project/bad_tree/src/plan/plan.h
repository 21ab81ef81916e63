#include "base/dtype.h"
#include "device/stream.h"  // bad
