#include "base/printable.h"

#include <algorithm>

#include "base/utf8.h"

namespace ebb {

std::string printable(std::string_view text, std::size_t most_bytes) {
  constexpr std::string_view kMore = "...";
  const bool cut = text.size() > most_bytes;
  std::size_t end = cut ? most_bytes - std::min(most_bytes, kMore.size()) : text.size();
  // Not within a character: what is shown may be written as JSON, too.
  while (cut && end > 0 && !utf8::begins_character(text[end])) --end;
  std::string shown(text.substr(0, end));
  for (char& c : shown) {
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) c = '?';
  }
  if (cut) shown += kMore;
  return shown;
}

}  // namespace ebb
