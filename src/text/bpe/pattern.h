// What a step of a tokenizer looks for: a literal string or a regular expression.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "text/bpe/json_part.h"

namespace ebb::text::bpe {

// What matching needs besides the pattern. For one thread at a time.
class MatchScratch {
 public:
  MatchScratch();
  ~MatchScratch();
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

 private:
  friend class Pattern;
  struct State;
  std::unique_ptr<State> state_;
};

struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Immutable, so any thread may use it. Never matches the empty string.
class Pattern {
 public:
  // {"String": ...} or {"Regex": ...}. Throws FormatError for what PCRE2 or Ebb cannot do.
  explicit Pattern(const JsonPart& part);
  // A regular expression in the dialect of tokenizer files; `where` is for errors.
  Pattern(std::string_view regex, const std::string& where);
  // As PCRE2 reads it, for patterns that are Ebb's own.
  static Pattern of_pcre2(const std::string& regex);
  static Pattern of_literal(std::string text);
  Pattern(Pattern&&) noexcept;
  Pattern& operator=(Pattern&&) noexcept;
  ~Pattern();

  // The first match at or after `from` in a text that is valid UTF-8. Throws FormatError where the
  // pattern takes more steps than some for each byte: one that explodes must not hang a run.
  bool next(std::string_view text, std::size_t from, MatchScratch& scratch, Span& match) const;

 private:
  struct Compiled;
  Pattern();
  void compile(const std::string& regex);

  std::string where_;
  std::string literal_;  // not empty: the pattern is this string
  std::unique_ptr<Compiled> compiled_;
};

}  // namespace ebb::text::bpe
