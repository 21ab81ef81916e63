// How byte-level tokenizers of GGUF files split a text, by the names that files have for it
// (tokenizer.ggml.pre).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/sorted_json.h"

namespace ebb::files {

struct GgufSplit {
  std::string_view pattern = {};  // empty: GPT-2's
  bool digits = false;            // each digit is alone, before GPT-2's pattern
  bool nfc = false;               // texts are normalized first
  bool whole_words = false;       // a word that is a token is that token, whatever the merges say
  bool begins = false;            // a begin-of-text token, where the file does not say
};

// The first name that a split has; none where it has none.
std::optional<std::string_view> gguf_split_name(const GgufSplit& split);
// Null for a name that is not known.
const GgufSplit* find_gguf_split(std::string_view name);
std::string gguf_split_names();

// The pre_tokenizer of a tokenizer.json.
SortedJson gguf_pre_tokenizer(const GgufSplit& split);

}  // namespace ebb::files
