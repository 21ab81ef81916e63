#include <mpi.h>  // bad

#include "kernels/matmul.h"  // bad
#include "memory/arena.h"
