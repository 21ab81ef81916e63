#include "text/utf8_stream.h"

namespace ebb::text {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

void Utf8Stream::begin(unsigned char lead, std::string& out) {
  if (lead < 0x80) {
    out.push_back(static_cast<char>(lead));
    return;
  }
  // 0xc0 and 0xc1 could only begin overlong forms, 0xf5 and above nothing at all.
  if (lead < 0xc2 || lead > 0xf4) {
    out += kReplacement;
    return;
  }
  missing_ = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
  lowest_ = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  highest_ = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  pending_.push_back(static_cast<char>(lead));
}

std::string Utf8Stream::feed(std::string_view bytes) {
  std::string out;
  out.reserve(pending_.size() + bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (missing_ > 0 && byte >= lowest_ && byte <= highest_) {
      pending_.push_back(c);
      lowest_ = 0x80;
      highest_ = 0xbf;
      if (--missing_ == 0) {
        out += pending_;
        pending_.clear();
      }
      continue;
    }
    // The byte that breaks a character is not part of it: it may begin the next one.
    out += finish();
    begin(byte, out);
  }
  return out;
}

std::string Utf8Stream::finish() {
  if (missing_ == 0) return {};
  pending_.clear();
  missing_ = 0;
  return std::string(kReplacement);
}

}  // namespace ebb::text
