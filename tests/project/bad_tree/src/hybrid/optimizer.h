#include "checkpoint/save.h"
#include "ebb/train.h"
#include "engine/train.h"  // bad
#include "model/block.h"   // bad
#include "optim/update.h"
#include "plan/plan.h"  // bad
