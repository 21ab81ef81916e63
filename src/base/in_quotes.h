// Text from outside, made fit for an error's text.
#pragma once

#include <string>
#include <string_view>

namespace ebb {

// Bounded, in quotes, without control characters, which a terminal would obey.
std::string in_quotes(std::string_view text);

}  // namespace ebb
