// One token a byte: ids 0 to 255 are the bytes, 256 is end of text. Needs no vocabulary file.
#pragma once

#include "text/tokenizer.h"

namespace ebb::text {

class ByteTokenizer final : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::size_t last_break(std::string_view text) const override { return text.size(); }
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::int32_t vocabulary() const override { return kEndOfText + 1; }
  std::int32_t end_of_text() const override { return kEndOfText; }
  std::string name() const override { return "bytes"; }
  std::optional<std::int32_t> id_of(std::string_view token) const override;

 private:
  static constexpr std::int32_t kEndOfText = 256;
};

}  // namespace ebb::text
