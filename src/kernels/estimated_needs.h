// The workspaces of machines that are not here: their libraries cannot be asked what scratch they
// want, so it is estimated.
#pragma once

#include <memory>
#include <string_view>

#include "kernels/model_library.h"

namespace ebb::kernels {

// The needs of a "cuda" or a "cpu" device; `cores` matter to the latter, which wants scratch for
// each.
std::unique_ptr<WorkspaceNeeds> estimate_needs(std::string_view device, int cores);

}  // namespace ebb::kernels
