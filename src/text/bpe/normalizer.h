// What is done to a text before it is split: Unicode forms, replacements, a space in front.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/bpe/json_part.h"
#include "text/bpe/pattern.h"
#include "text/bpe/unicode_form.h"

namespace ebb::text::bpe {

struct Piece {
  std::string_view text;
  bool at_start = false;   // its first character stands for the very beginning of what was encoded
  bool continues = false;  // it goes on from text that was encoded before: nothing is put in front

  // A part of it, from its beginning or from further in.
  Piece part(std::string_view of_text, bool first) const {
    return {of_text, at_start && first, continues && first};
  }
};

// Immutable, so any thread may use it.
class Normalizer {
 public:
  // The "normalizer" of tokenizer.json. Throws FormatError that names what is not supported.
  explicit Normalizer(const JsonPart& tokenizer);

  // The piece itself, or what became of it, which lies in `storage`. A step reads what the one
  // before it wrote, so there are two places to write to. Throws FormatError where a file's
  // replacements make far more of a text than any normalizer should.
  Piece apply(Piece piece, std::array<std::string, 2>& storage, MatchScratch& scratch) const;

 private:
  struct Prepend {
    std::string text;
  };
  struct Replace {
    Pattern pattern;
    std::string with;
  };
  struct Strip {
    bool left = true;
    bool right = true;
  };
  struct Lowercase {};
  using Step = std::variant<UnicodeForm, Prepend, Replace, Strip, Lowercase>;

  // Where a step may write, and how much.
  struct Work {
    std::string& storage;
    MatchScratch& scratch;
    std::size_t most;
  };

  static Step read(const JsonPart& part);
  static Piece run(UnicodeForm form, Piece piece, const Work& work);
  static Piece run(const Prepend& step, Piece piece, const Work& work);
  static Piece run(const Replace& step, Piece piece, const Work& work);
  static Piece run(const Strip& step, Piece piece, const Work& work);
  static Piece run(const Lowercase& step, Piece piece, const Work& work);

  std::string place_;
  std::vector<Step> steps_;
};

}  // namespace ebb::text::bpe
