// What a step of a tokenizer looks for: a literal string or a regular expression.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "text/bpe/json_part.h"

namespace ebb::text::bpe {

// What matching needs besides the pattern. For one thread at a time, and one Matches at a time.
class MatchScratch {
 public:
  MatchScratch();
  ~MatchScratch();
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

 private:
  friend class Matches;
  struct State;
  std::unique_ptr<State> state_;
};

struct TextRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Immutable, so any thread may use it. Never matches the empty string. Matches finds it in a text.
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

 private:
  friend class Matches;
  struct Program;
  struct Regex;
  Pattern();
  void compile(std::string_view shown, const std::string& regex);

  std::string where_;
  std::string literal_;  // not empty: the pattern is this string
  std::unique_ptr<Regex> regex_;
};

// The places of a pattern in one text, which is valid UTF-8. Time is bounded by the text's length:
// all searches together take so many steps for each of its bytes, where a step is an item of the
// pattern that is tried, or 64 bytes that one runs over.
class Matches {
 public:
  // All three outlive it.
  Matches(const Pattern& pattern, std::string_view text, MatchScratch& scratch);

  // The first match at or after `from`. Throws FormatError where the pattern takes more steps than
  // the text has: one that explodes, or looks at all of the text again and again, must not hang a
  // run.
  bool next(std::size_t from, TextRange& match);

  std::size_t steps_left() const { return steps_left_; }

 private:
  int search(const Pattern::Program& program, std::size_t from, std::size_t end) const;
  int search_counted(std::size_t from);
  bool next_literal(std::size_t from, TextRange& match) const;
  [[noreturn]] void give_up(std::size_t from, int error) const;

  const Pattern& pattern_;
  std::string_view text_;
  MatchScratch::State& state_;
  std::size_t steps_left_;
};

}  // namespace ebb::text::bpe
