// A tokenizer.json small enough to read, for tests to change.
#pragma once

#include <memory>
#include <string>

#include "base/json.h"
#include "text/bpe/bpe_tokenizer.h"

namespace ebb::text {

// Characters a, b, c, a space and "ab"; <s> and </s> are added. No normalizer, no splitting.
inline Json small_tokenizer() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [
      {"id": 5, "content": "<s>", "special": true},
      {"id": 6, "content": "</s>", "special": true}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, " ": 3, "ab": 4},
              "merges": [["a", "b"]]}})");
}

inline std::unique_ptr<bpe::BpeTokenizer> load(const Json& json) {
  return std::make_unique<bpe::BpeTokenizer>(json.dump(), "'x/tokenizer.json'", "");
}

}  // namespace ebb::text
