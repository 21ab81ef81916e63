#include "memory/arena.h"
#include "model/block.h"  // bad
