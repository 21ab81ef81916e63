#include <liburing.h>  // bad

#include "base/dtype.h"
#include "memory/arena.h"  // bad
