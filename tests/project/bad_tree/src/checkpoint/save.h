#include "io/file.h"
#include "memory/arena.h"
#include "optim/update.h"  // bad
