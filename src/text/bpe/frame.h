// What a tokenizer puts before and behind a text: a begin-of-text token, often nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "text/bpe/json_part.h"

namespace ebb::text::bpe {

struct Frame {
  std::vector<std::int32_t> prefix;
  std::vector<std::int32_t> suffix;
};

// From the "post_processor" of tokenizer.json; ids are below `vocabulary`. Throws FormatError that
// names what is not supported.
Frame read_frame(const JsonPart& tokenizer, std::int32_t vocabulary);

}  // namespace ebb::text::bpe
