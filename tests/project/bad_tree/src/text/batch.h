#include "io/file.h"
#include "memory/arena.h"  // bad
