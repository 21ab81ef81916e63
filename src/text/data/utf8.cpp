#include "text/data/utf8.h"

#include <cstdint>
#include <cstring>

namespace ebb::text {

std::optional<std::size_t> find_invalid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    // Most text is ASCII, which goes by eight at a time.
    std::uint64_t eight = 0;
    if (i + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + i, 8);
      if ((eight & 0x8080808080808080u) == 0) {
        i += 8;
        continue;
      }
    }
    const unsigned char lead = byte(i);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    if (lead < 0xc2 || lead > 0xf4) return i;
    const std::size_t more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    const unsigned char lowest = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const unsigned char highest = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (i + more >= text.size()) return i;
    if (byte(i + 1) < lowest || byte(i + 1) > highest) return i;
    for (std::size_t k = 2; k <= more; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return i;
    }
    i += more + 1;
  }
  return std::nullopt;
}

}  // namespace ebb::text
