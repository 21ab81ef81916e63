#include "base/in_quotes.h"

namespace ebb {

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMost = 200;
  std::string shown(text.substr(0, kMost));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "'" + shown + (text.size() > kMost ? "...'" : "'");
}

}  // namespace ebb
