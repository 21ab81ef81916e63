#include "text/bpe/utf8.h"

#include "text/utf8_stream.h"

namespace ebb::text::bpe {

std::string_view as_utf8(std::string_view text, std::string& storage) {
  const std::size_t valid = valid_bytes(text);
  if (valid == text.size()) return text;
  Utf8Stream stream;
  storage.assign(text.substr(0, valid));
  storage += stream.feed(text.substr(valid));
  storage += stream.finish();
  return storage;
}

bool is_space(char32_t c) {
  return (c >= 0x9 && c <= 0xd) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace ebb::text::bpe
