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

  // The tokens of `more`, which goes on from the text so far: those that it has in the whole text,
  // or where the whole has other tokens for the text so far, its own.
  std::vector<std::int32_t> extend(std::string_view more) {
    open_ += more;
    encoded_bytes_ += open_.size();
    std::vector<std::int32_t> ids = encode(open_);
    const bool same =
        ids.size() >= ids_.size() && std::equal(ids_.begin(), ids_.end(), ids.begin());
    std::vector<std::int32_t> rest =
        same ? std::vector(ids.begin() + static_cast<std::ptrdiff_t>(ids_.size()), ids.end())
             : tokenizer_.encode_next(more);
    ids_ = std::move(ids);
    // What is settled is not encoded again: many parts would take time by their number squared.
    if (const std::size_t settled = tokenizer_.last_break(open_); settled > 0) {
      open_.erase(0, settled);
      broken_ = true;
      ids_ = encode(open_);
    }
    return rest;
  }

  // So far: what this took.
  std::size_t encoded_bytes() const { return encoded_bytes_; }

 private:
  std::vector<std::int32_t> encode(std::string_view text) const {
    return broken_ ? tokenizer_.encode_after_break(text) : tokenizer_.encode(text);
  }

  const Tokenizer& tokenizer_;
  std::string open_;               // behind the last break
  std::vector<std::int32_t> ids_;  // of open_
  bool broken_ = false;            // there is text before open_
  std::size_t encoded_bytes_ = 0;
};

}  // namespace ebb::text
