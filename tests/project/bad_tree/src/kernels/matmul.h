#include <oneapi/dnnl/dnnl.hpp>  // bad

#include "memory/arena.h"  // bad
