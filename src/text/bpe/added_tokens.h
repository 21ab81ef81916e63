// Tokens that are looked for in the text itself, before anything is split: begin and end of text,
// the marks of a chat, whatever was added to a vocabulary later.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "ebb/units.h"
#include "text/bpe/json_part.h"
#include "text/bpe/normalizer.h"

namespace ebb::text::bpe {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  std::string sought;  // the content, normalized where `normalized`; also what it decodes to
  bool special = false;
  bool single_word = false;  // no letter or digit right before or after it
  bool left = false;         // takes the spaces before it along
  bool right = false;        // and those after it
  bool normalized = false;   // looked for in the normalized text, in its normalized form
};

// Finds the longest of a set of strings, leftmost first. Time is bounded by the text's length times
// the longest string's, which the files' reader bounds.
class TokenFinder {
 public:
  // The first of two equal strings wins.
  void add(std::string_view text, std::size_t token);
  bool empty() const { return nodes_.size() == 1; }

  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::size_t token = 0;
  };
  std::optional<Match> next(std::string_view text, std::size_t from) const;
  Bytes memory_bytes() const;

 private:
  struct Node {
    std::int64_t token = -1;
    std::vector<std::pair<unsigned char, std::uint32_t>> children;
  };
  std::vector<Node> nodes_{1};
  std::bitset<256> first_;  // bytes that a string may begin with
};

// Immutable, so any thread may use it.
class AddedTokens {
 public:
  // The "added_tokens" of tokenizer.json. Ids are the caller's to check.
  AddedTokens(const JsonPart& tokenizer, const Normalizer& normalizer);

  const std::vector<AddedToken>& tokens() const { return tokens_; }
  Bytes memory_bytes() const;

  // Whether some are to be looked for before and after normalizing.
  bool any(bool normalized) const { return !finders_[normalized].empty(); }

  // Where the last token ends that is looked for in the text as it is, and that is found there
  // whatever is written behind `text`; 0 where there is none.
  std::size_t last_end(std::string_view text) const;

  // Calls `piece` with what lies between tokens and `token` with their ids, in order. Pieces are
  // never empty.
  void split(Piece text, bool normalized, MatchScratch& scratch, FunctionRef<void(Piece)> piece,
             FunctionRef<void(std::int32_t)> token) const;

 private:
  std::vector<AddedToken> tokens_;
  std::array<TokenFinder, 2> finders_;  // by AddedToken::normalized
  // Of those that are not normalized.
  std::size_t longest_ = 0;  // bytes
  bool looks_around_ = false;
};

}  // namespace ebb::text::bpe
