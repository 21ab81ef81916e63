// Tokenizes a text that is written part by part.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/tokenizer.h"

namespace ebb::text {

// The tokens of what came first never change when more is written: a model that generates sees them
// before anything else. Within that, tokens are those of the whole text.
class Continuation {
 public:
  // Keeps a reference.
  explicit Continuation(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  const std::string& text() const { return text_; }

  // `whole` begins with the text so far. Returns the tokens of the rest: where the whole has other
  // tokens for the text so far, those of the rest alone.
  std::vector<std::int32_t> extend(std::string whole) {
    std::vector<std::int32_t> ids = tokenizer_.encode(whole);
    const bool same =
        ids.size() >= ids_.size() && std::equal(ids_.begin(), ids_.end(), ids.begin());
    std::vector<std::int32_t> rest =
        same ? std::vector(ids.begin() + static_cast<std::ptrdiff_t>(ids_.size()), ids.end())
             : tokenizer_.encode_next(std::string_view(whole).substr(text_.size()));
    text_ = std::move(whole);
    ids_ = std::move(ids);
    return rest;
  }

 private:
  const Tokenizer& tokenizer_;
  std::string text_;
  std::vector<std::int32_t> ids_;  // of text_ as a whole
};

}  // namespace ebb::text
