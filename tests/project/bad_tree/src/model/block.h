#include "kernels/matmul.h"
#include "states/update.h"  // bad
