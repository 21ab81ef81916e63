#include <pybind11/pybind11.h>

#include "ebb/train.h"
#include "engine/train.h"  // bad
