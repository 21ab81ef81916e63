// The style and the script of a page, from page/ as the build put them into the program.
#pragma once

#include <string_view>

namespace ebb::report {

extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace ebb::report
