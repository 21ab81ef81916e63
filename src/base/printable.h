// Text from outside, made fit for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ebb {

// All of it, or its first characters and "...", in at most so many bytes (3 and more); lines stay,
// other control characters, which a terminal would obey, become '?'.
std::string printable(std::string_view text, std::size_t most_bytes);

}  // namespace ebb
