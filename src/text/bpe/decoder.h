// Tokens back to bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/heap_bytes.h"
#include "text/bpe/json_part.h"

namespace ebb::text::bpe {

// What each token stands for is worked out once. Immutable, so any thread may use it.
class Decoder {
 public:
  // The "decoder" of tokenizer.json; tokens by id, empty where an id has none. Throws FormatError
  // that names what is not supported.
  Decoder(const JsonPart& tokenizer, const std::vector<std::string>& tokens);

  // Appends the bytes of a token. Some decoders take a space off the beginning of a text or put
  // one before all other tokens: `at_start` says that nothing was decoded before.
  void decode(std::int32_t id, bool at_start, std::string& out) const;

  Bytes memory_bytes() const {
    return heap_bytes(anywhere_.bytes) + heap_bytes(anywhere_.ends) + heap_bytes(at_start_.bytes) +
           heap_bytes(at_start_.ends);
  }

 private:
  // One place for all bytes; those of token i end at ends[i].
  struct Texts {
    std::string bytes;
    std::vector<std::size_t> ends;

    void push_back(std::string_view text);
    std::string_view operator[](std::size_t i) const;
  };
  Texts anywhere_;
  Texts at_start_;
};

}  // namespace ebb::text::bpe
