#include "io/file.h"
#include "memory/arena.h"
#include "plan/plan.h"  // bad
