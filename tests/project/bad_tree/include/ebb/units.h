#include <fmt/format.h>  // bad

#include "base/dtype.h"  // bad
