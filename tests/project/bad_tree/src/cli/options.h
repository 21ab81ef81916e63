#include <CLI/CLI.hpp>

#include "base/dtype.h"  // bad
#include "cli/options.h"
#include "ebb/train.h"
#include "engine/train.h"  // bad
