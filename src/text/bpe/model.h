// Byte pair encoding: a word becomes the tokens of its characters or bytes, and then the pair of
// neighbours that was learned first becomes one token, again and again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/bpe/json_part.h"
#include "text/bpe/merge_table.h"
#include "text/bpe/merging.h"
#include "text/bpe/word_cache.h"

namespace ebb::text::bpe {

// What encoding needs besides the model. For one thread at a time.
struct ModelScratch {
  // A character of a word: where its bytes begin, and where its tokens begin among `ids`.
  struct Unit {
    std::uint32_t byte = 0;
    std::uint32_t id = 0;
  };
  WordCache cache;
  std::vector<Unit> units;
  std::vector<std::int32_t> ids;
  MergingScratch merging;
};

// Tokens as they are spelled, to their ids. The hash is a polynomial at a point that nobody knows
// beforehand: a file whose tokens all have one hash, and make looking them up take the square of
// their number, cannot be made.
class SpellingHash {
 public:
  using is_transparent = void;
  SpellingHash();
  std::size_t operator()(std::string_view text) const;

 private:
  std::uint64_t point_;
};
using Vocabulary = std::unordered_map<std::string, std::int32_t, SpellingHash, std::equal_to<>>;

// Immutable, so any thread may use it.
class Model {
 public:
  // The "model" of tokenizer.json. With `bytes`, words come as bytes whose spelling is in the
  // vocabulary (byte_alphabet.h), else as characters. Throws FormatError for another model than
  // BPE, options that are not supported, and vocabularies and merges that contradict each other.
  Model(const JsonPart& tokenizer, bool bytes);

  // Appends the tokens of a word, which is not empty and shorter than 2^32 bytes.
  void encode(std::string_view word, ModelScratch& scratch, std::vector<std::int32_t>& out) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }
  Bytes memory_bytes() const;

 private:
  void read_vocabulary(const JsonPart& part);
  void read_merges(const JsonPart& part);
  void read_alphabet();
  void keep_seams(std::vector<std::uint64_t>& seams);

  std::int32_t find(std::string_view spelled) const;  // -1: not a token
  std::int32_t character_id(char32_t character, std::string_view spelled) const;
  void encode_short(std::string_view word, ModelScratch& scratch,
                    std::vector<std::int32_t>& out) const;
  void encode_long(std::string_view word, ModelScratch& scratch,
                   std::vector<std::int32_t>& out) const;
  bool take_whole(std::string_view word, std::vector<std::int32_t>& out) const;
  bool split_units(std::string_view word, ModelScratch& scratch) const;
  static std::uint64_t seam_hash(std::int32_t left, std::int32_t right) {
    const auto both = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
    return (both ^ both >> 29) * 0x9e3779b97f4a7c15u >> 24;
  }
  bool may_join(std::int32_t left, std::int32_t right) const;
  void merge(std::span<std::int32_t> ids, ModelScratch& scratch,
             std::vector<std::int32_t>& out) const;

  std::string place_;
  Vocabulary vocabulary_;
  MergeTable merges_{0};
  bool bytes_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;  // a word that is a token stays one, whatever the merges say
  bool fuse_unknown_ = false;
  bool has_unknown_ = false;            // if not, unknown characters vanish
  std::int32_t unknown_ = -1;           // -1: named, but not a token
  std::vector<std::int32_t> alphabet_;  // of each byte, or of each character below 2^16; -1: none
  std::array<std::int32_t, 256> fallback_;  // the token of each byte; -1: none
  // Pairs of characters that stand side by side within a token, as bits under their hash. Between
  // others no merge ever happens, so a long word falls apart into short ones there.
  std::vector<std::uint64_t> joined_;
};

}  // namespace ebb::text::bpe
