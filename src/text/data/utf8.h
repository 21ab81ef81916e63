// Whether bytes are UTF-8.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace ebb::text {

// Where the first byte is that no valid UTF-8 has at that place: a stray or overlong byte, the lead
// of a character that is not completed, a surrogate, a value beyond U+10FFFF.
std::optional<std::size_t> find_invalid_utf8(std::string_view text);

}  // namespace ebb::text
