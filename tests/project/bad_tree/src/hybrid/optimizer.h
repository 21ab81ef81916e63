#include "ebb/train.h"
#include "engine/train.h"  // bad
#include "files/save.h"
#include "model/block.h"  // bad
#include "plan/plan.h"    // bad
#include "states/update.h"
