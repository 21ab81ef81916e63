#include <fmt/format.h>
#include <hwy/highway.h>  // bad
#include <sched.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <vector>

#include "base/rng.h"
#include "device/stream.h"  // bad
#include "ebb/error.h"
#include "ebb/train.h"  // bad
#include "ebb/units.h"
