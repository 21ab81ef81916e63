// Two texts in one input, with a byte between them that neither JSON nor a template has.
#pragma once

#include <string_view>
#include <utility>

namespace ebb::fuzz {

// What is before the first record separator, and what is behind it.
inline std::pair<std::string_view, std::string_view> two_parts(std::string_view input) {
  const std::size_t at = input.find('\x1e');
  if (at == std::string_view::npos) return {input, {}};
  return {input.substr(0, at), input.substr(at + 1)};
}

}  // namespace ebb::fuzz
