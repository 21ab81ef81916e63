// Cuts a text into words: what the merges of the model never reach across.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/function_ref.h"
#include "text/bpe/json_part.h"
#include "text/bpe/normalizer.h"
#include "text/bpe/pattern.h"

namespace ebb::text::bpe {

// Immutable, so any thread may use it.
class PreTokenizer {
 public:
  // The "pre_tokenizer" of tokenizer.json. Throws FormatError that names what is not supported.
  explicit PreTokenizer(const JsonPart& tokenizer);

  // Whether the last step spells the bytes of words as characters (byte_alphabet.h). Then words
  // are left as bytes, and the model spells them.
  bool leaves_bytes() const { return leaves_bytes_; }

  // Calls `word` with the words of the piece in order, none of them empty. They live for the call.
  // Throws FormatError where the file's steps make far more of a text than it is long.
  void split(Piece piece, MatchScratch& scratch, FunctionRef<void(std::string_view)> word) const;

 private:
  enum class Delimiter { isolated, removed, contiguous, with_previous, with_next };
  struct Split {
    Pattern pattern;
    Delimiter delimiter = Delimiter::isolated;
    bool invert = false;
  };
  struct Bytes {
    bool prefix_space = false;
    bool spell = true;
  };
  enum class Prefix { first, always, never };
  struct Metaspace {
    std::string replacement;
    Prefix prefix = Prefix::always;
  };
  using Step = std::variant<Split, Bytes, Metaspace>;
  using Sink = FunctionRef<void(Piece)>;

  // Of one text: where its words go, and how many bytes its steps may still see.
  struct Work {
    MatchScratch& scratch;
    FunctionRef<void(std::string_view)> word;
    std::size_t bytes_left;
  };

  void read(const JsonPart& part);
  static Delimiter read_delimiter(const JsonPart& part);
  void run(std::size_t step, Piece piece, Work& work) const;
  static void apply(const Split& step, Piece piece, MatchScratch& scratch, Sink emit);
  static void apply(const Bytes& step, Piece piece, MatchScratch& scratch, Sink emit);
  static void apply(const Metaspace& step, Piece piece, MatchScratch& scratch, Sink emit);

  std::string place_;
  std::vector<Step> steps_;
  bool leaves_bytes_ = false;
};

}  // namespace ebb::text::bpe
