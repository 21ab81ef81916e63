#include <CLI/CLI.hpp>  // bad

#include "cli/options.h"  // bad
#include "dist/communicator.h"
#include "ebb/train.h"
#include "files/save.h"
#include "model/block.h"
#include "plan/plan.h"
