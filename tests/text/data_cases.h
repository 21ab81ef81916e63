// Data sets for tests: a byte is a token, so that a test can read what came out.
#pragma once

#include <string>
#include <vector>

#include "io/posix_file_system.h"
#include "temporary_folder.h"
#include "text/byte_tokenizer.h"
#include "text/data/data_set.h"
#include "text/data/packing.h"

namespace ebb::text {

// Bytes, with a token before every text and end of text behind it, as some tokenizers want it.
class BytesAfterBegin final : public Tokenizer {
 public:
  static constexpr std::int32_t kBegin = 257;
  std::vector<std::int32_t> encode(std::string_view text) const override {
    return bytes_.encode(text);
  }
  std::vector<std::int32_t> prefix() const override { return {kBegin}; }
  std::vector<std::int32_t> suffix() const override { return {end_of_text()}; }
  std::string decode(std::span<const std::int32_t> ids) const override {
    return bytes_.decode(ids);
  }
  std::int32_t vocabulary() const override { return kBegin + 1; }
  std::int32_t end_of_text() const override { return bytes_.end_of_text(); }
  std::string name() const override { return "bytes after begin"; }
  std::optional<std::int32_t> id_of(std::string_view token) const override {
    return bytes_.id_of(token);
  }

 private:
  ByteTokenizer bytes_;
};

inline const ByteTokenizer kBytes;
inline const BytesAfterBegin kBytesAfterBegin;

inline io::PosixFileSystem disk;

inline Encoding bytes_encoding() {
  return {.tokenizer = &kBytes, .vocabulary = 300, .loss_on_all = false, .chat = {}};
}

inline DataSet open_data(const std::vector<std::filesystem::path>& paths,
                         const Encoding& encoding = bytes_encoding(),
                         const DataOptions& options = {}) {
  return DataSet(disk, paths, encoding, options);
}

// Tokens as text: end of text is '|', the beginning '^', anything else beyond bytes '?'.
inline std::string spell(std::span<const std::int32_t> tokens) {
  std::string text;
  for (const std::int32_t token : tokens) {
    const std::int32_t id = id_of(token);
    text.push_back(id < 256 ? static_cast<char>(id) : id == 256 ? '|' : id == 257 ? '^' : '?');
  }
  return text;
}

// The tokens that carry loss, '.' for those that do not.
inline std::string spell_loss(std::span<const std::int32_t> tokens) {
  std::string text = spell(tokens);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (tokens[i] < 0) text[i] = '.';
  }
  return text;
}

// All items one after another.
inline std::string spell(const DataSet& data) {
  std::string text;
  for (std::int64_t i = 0; i < data.items(); ++i) text += spell(data.read(i).tokens);
  return text;
}

}  // namespace ebb::text
