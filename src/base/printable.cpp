#include "base/printable.h"

namespace ebb {

std::string printable(std::string_view text, std::size_t most_bytes) {
  std::string shown(text.substr(0, most_bytes));
  for (char& c : shown) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) c = '?';
  }
  return text.size() > most_bytes ? shown + "..." : shown;
}

}  // namespace ebb
