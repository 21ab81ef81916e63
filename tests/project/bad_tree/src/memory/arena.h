#include "base/dtype.h"
#include "device/stream.h"
#include "io/file.h"  // bad
