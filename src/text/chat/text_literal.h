// String literals of templates.
#pragma once

#include <string>
#include <string_view>

namespace ebb::text::jinja {

// What a literal without its quotes means, by Python's escapes. Throws SyntaxFailure.
std::string unescape(std::string_view literal, int line);

}  // namespace ebb::text::jinja
