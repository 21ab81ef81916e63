// Jinja's filters: `value | name(arguments)`.
#pragma once

#include <string_view>

#include "text/chat/call.h"

namespace ebb::text::jinja {

// Null where there is none of this name.
Function find_filter(std::string_view name);

// `safe`: the value as text. What marks it in Jinja only shows where it is combined with other
// text, which the parser refuses.
Value mark_safe(const Value& self, const Arguments& arguments, Budget& budget);

// The parts of it, one a file.
Function find_text_filter(std::string_view name);
Function find_sequence_filter(std::string_view name);
Function find_number_filter(std::string_view name);

// Filters whose first or second argument names another filter or test.
bool takes_filter_name(std::string_view filter);
// Which argument names a test; -1 where none does.
int test_name_argument(std::string_view filter);

}  // namespace ebb::text::jinja
