#include <CLI/CLI.hpp>  // bad

#include "checkpoint/save.h"
#include "cli/options.h"  // bad
#include "dist/communicator.h"
#include "ebb/train.h"
#include "model/block.h"
#include "plan/plan.h"
