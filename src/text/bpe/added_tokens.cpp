#include "text/bpe/added_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "base/heap_bytes.h"
#include "base/in_quotes.h"
#include "base/to_size.h"
#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

namespace {

constexpr std::size_t kLongestToken = 1024;         // also when normalized
constexpr std::size_t kAllBytes = 4 * 1024 * 1024;  // a node of the finder takes some 50 bytes

// The character that ends right before `end`.
char32_t character_before(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (!begins_character(text[at])) --at;
  return next_character(text, at);
}

bool is_word_character(char32_t character, MatchScratch& scratch) {
  static const Pattern word = Pattern::of_pcre2(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_C}])");
  std::string text;
  append_character(character, text);
  TextRange match;
  return Matches(word, text, scratch).next(0, match);
}

bool is_single_word(std::string_view text, std::size_t begin, std::size_t end,
                    MatchScratch& scratch) {
  if (begin > 0 && is_word_character(character_before(text, begin), scratch)) return false;
  return end == text.size() || !is_word_character(next_character(text, end), scratch);
}

// Where the spaces that end at `end` begin, but not before `lowest`.
std::size_t spaces_before(std::string_view text, std::size_t end, std::size_t lowest) {
  std::size_t begin = end;
  while (begin > lowest && is_space(character_before(text, begin))) {
    do --begin;
    while (!begins_character(text[begin]));
  }
  return begin;
}

std::size_t spaces_after(std::string_view text, std::size_t begin) {
  std::size_t end = begin;
  for (std::size_t at = begin; at < text.size() && is_space(next_character(text, at));) end = at;
  return end;
}

AddedToken read(const JsonPart& part) {
  AddedToken token;
  token.id = static_cast<std::int32_t>(
      part.at("id").number(0, std::numeric_limits<std::int32_t>::max() - 1));
  token.content = part.at("content").text();
  token.special = part.flag_or("special", false);
  token.single_word = part.flag_or("single_word", false);
  token.left = part.flag_or("lstrip", false);
  token.right = part.flag_or("rstrip", false);
  token.normalized = part.flag_or("normalized", !token.special);
  if (token.content.empty()) part.refuse("an added token without content");
  if (token.content.size() > kLongestToken) {
    part.refuse(fmt::format("an added token of {} bytes; at most {} are supported",
                            token.content.size(), kLongestToken));
  }
  return token;
}

}  // namespace

void TokenFinder::add(std::string_view text, std::size_t token) {
  first_.set(static_cast<unsigned char>(text[0]));
  std::uint32_t node = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    auto& children = nodes_[node].children;
    const auto found =
        std::ranges::lower_bound(children, byte, {}, [](auto& x) { return x.first; });
    if (found != children.end() && found->first == byte) {
      node = found->second;
      continue;
    }
    const auto created = static_cast<std::uint32_t>(nodes_.size());
    children.emplace(found, byte, created);
    nodes_.emplace_back();
    node = created;
  }
  if (nodes_[node].token < 0) nodes_[node].token = static_cast<std::int64_t>(token);
}

Bytes TokenFinder::memory_bytes() const {
  Bytes bytes = heap_bytes(nodes_);
  for (const Node& node : nodes_) bytes += heap_bytes(node.children);
  return bytes;
}

Bytes AddedTokens::memory_bytes() const {
  Bytes bytes = heap_bytes(tokens_);
  for (const AddedToken& token : tokens_) {
    bytes += heap_bytes(token.content) + heap_bytes(token.sought);
  }
  for (const TokenFinder& finder : finders_) bytes += finder.memory_bytes();
  return bytes;
}

std::optional<TokenFinder::Match> TokenFinder::next(std::string_view text, std::size_t from) const {
  for (std::size_t begin = from; begin < text.size(); ++begin) {
    if (!first_[static_cast<unsigned char>(text[begin])]) continue;
    std::optional<Match> longest;
    std::uint32_t node = 0;
    for (std::size_t at = begin; at < text.size(); ++at) {
      const auto byte = static_cast<unsigned char>(text[at]);
      const auto& children = nodes_[node].children;
      const auto found =
          std::ranges::lower_bound(children, byte, {}, [](auto& x) { return x.first; });
      if (found == children.end() || found->first != byte) break;
      node = found->second;
      if (nodes_[node].token >= 0) {
        longest = Match{begin, at + 1, to_size(nodes_[node].token)};
      }
    }
    if (longest) return longest;
  }
  return std::nullopt;
}

AddedTokens::AddedTokens(const JsonPart& tokenizer, const Normalizer& normalizer) {
  if (!tokenizer.has("added_tokens")) return;
  const JsonPart list = tokenizer.at("added_tokens");
  std::set<std::string_view> contents;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonPart part = list[i];
    tokens_.push_back(read(part));
    if (!contents.insert(part.at("content").text()).second) {
      part.refuse(
          fmt::format("the added token {} is there twice", in_quotes(tokens_.back().content)));
    }
  }
  MatchScratch scratch;
  std::array<std::string, 2> storage;
  // Where normalizing makes two of them equal, special ones win.
  for (const bool special : {true, false}) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      AddedToken& token = tokens_[i];
      if (token.special != special) continue;
      token.sought = token.content;
      if (token.normalized) {
        token.sought = normalizer.apply({token.content, true}, storage, scratch).text;
      }
      if (token.sought.empty()) {
        list.refuse(
            fmt::format("normalizing leaves nothing of the added token {}; set its "
                        "\"normalized\" to false",
                        in_quotes(token.content)));
      }
      bytes += token.sought.size();
      if (!token.normalized) {
        longest_ = std::max(longest_, token.sought.size());
        looks_around_ = looks_around_ || token.single_word;
      }
      if (token.sought.size() > kLongestToken || bytes > kAllBytes) {
        list.refuse(fmt::format(
            "too many or too long added tokens: at the token {} of {} bytes when normalized; at "
            "most {} bytes each and {} in all are supported",
            in_quotes(token.content), token.sought.size(), kLongestToken, kAllBytes));
      }
      finders_[token.normalized].add(token.sought, i);
    }
  }
}

std::size_t AddedTokens::last_end(std::string_view text) const {
  // A token that is no part of a word looks at what is before and behind it, over any cut.
  if (looks_around_) return 0;
  std::size_t end = 0;
  std::size_t from = 0;
  while (const auto match = finders_[false].next(text, from)) {
    // With more text behind it, it might become a longer one.
    if (match->begin + longest_ > text.size()) break;
    from = match->end;
    if (!tokens_[match->token].right) end = match->end;
  }
  return end;
}

void AddedTokens::split(Piece text, bool normalized, MatchScratch& scratch,
                        FunctionRef<void(Piece)> piece,
                        FunctionRef<void(std::int32_t)> token) const {
  const std::string_view all = text.text;
  const TokenFinder& finder = finders_[normalized];
  const auto emit = [&](std::size_t begin, std::size_t end) {
    if (begin < end) piece(text.part(all.substr(begin, end - begin), begin == 0));
  };
  std::size_t done = 0;
  std::size_t from = 0;
  std::size_t spaces_end = 0;  // of the last spaces that a token took along
  while (const auto match = finder.next(all, from)) {
    // The search goes on behind the token itself, though it may have taken spaces along. So a
    // token of spaces can begin, and even end, inside what the last one took.
    from = match->end;
    const AddedToken& found = tokens_[match->token];
    if (found.single_word && !is_single_word(all, match->begin, match->end, scratch)) continue;
    std::size_t begin = match->begin;
    std::size_t end = match->end;
    if (found.left) begin = std::max(spaces_before(all, begin, std::min(begin, done)), done);
    if (found.right) {
      if (end >= spaces_end) spaces_end = spaces_after(all, end);
      end = spaces_end;
    }
    emit(done, begin);
    token(found.id);
    done = end;
  }
  emit(done, all.size());
}

}  // namespace ebb::text::bpe
