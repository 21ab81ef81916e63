// What this machine calls itself.
#pragma once

#include <string>

namespace ebb::dist {

std::string host_name();

}  // namespace ebb::dist
