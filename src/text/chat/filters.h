// Jinja's filters: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "text/chat/call.h"

namespace ebb::text::jinja {

// Null where there is none of this name.
Function find_filter(std::string_view name);

// Stands for what is not supported, in the branch that runs alone: throws Failure with the text
// that is its one argument.
Value refuse(const Value& self, const Arguments& arguments, Budget& budget);

// The parts of it, one a file.
Function find_text_filter(std::string_view name);
Function find_sequence_filter(std::string_view name);
Function find_number_filter(std::string_view name);

}  // namespace ebb::text::jinja
