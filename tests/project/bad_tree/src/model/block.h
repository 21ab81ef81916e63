#include "kernels/matmul.h"
#include "optim/update.h"  // bad
