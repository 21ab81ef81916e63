// The methods of strings.
#pragma once

#include <string_view>

#include "text/chat/call.h"

namespace ebb::text::jinja {

// Null where there is none of this name.
Function find_string_method(std::string_view name);

// The method 'format'.
Value format_text(const Value& self, const Arguments& arguments, Budget& budget);

}  // namespace ebb::text::jinja
