// Jinja's tests: `value is name(arguments)`.
#pragma once

#include <string_view>

#include "text/chat/call.h"

namespace ebb::text::jinja {

// Gives a bool, or what Python's comparison gives. Null where there is none of this name.
Function find_test(std::string_view name);

}  // namespace ebb::text::jinja
