#include "text/bpe/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/heap_bytes.h"
#include "base/in_quotes.h"
#include "ebb/error.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/merging.h"
#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

namespace {

// Of a field of numbers: the largest prime below 2^61.
constexpr std::uint64_t kPrime = (std::uint64_t{1} << 61) - 1;

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide both = static_cast<Wide>(a) * b;
  const std::uint64_t sum =
      (static_cast<std::uint64_t>(both) & kPrime) + static_cast<std::uint64_t>(both >> 61);
  return sum >= kPrime ? sum - kPrime : sum;
}

}  // namespace

SpellingHash::SpellingHash() {
  std::random_device random;
  point_ = 1 + ((std::uint64_t{random()} << 32 | random()) % (kPrime - 1));
}

std::size_t SpellingHash::operator()(std::string_view text) const {
  constexpr std::size_t kDigitBytes = 7;  // of a digit below the prime
  std::uint64_t sum = text.size() + 1;
  for (; !text.empty(); text.remove_prefix(std::min(kDigitBytes, text.size()))) {
    std::uint64_t digit = 0;
    std::memcpy(&digit, text.data(), std::min(kDigitBytes, text.size()));
    sum = product(sum, point_) + digit;
    if (sum >= kPrime) sum -= kPrime;
  }
  // The last digit, too, is to be spread.
  return product(sum, point_);
}

Bytes Model::memory_bytes() const {
  // A node has its token, its hash and a link.
  constexpr Bytes node =
      static_cast<Bytes>(sizeof(Vocabulary::value_type)) + 2 * sizeof(void*) + kAllocationBytes / 2;
  Bytes bytes = static_cast<Bytes>(vocabulary_.bucket_count() * sizeof(void*)) +
                static_cast<Bytes>(vocabulary_.size()) * node + merges_.memory_bytes() +
                heap_bytes(alphabet_) + heap_bytes(joined_);
  for (const auto& [token, id] : vocabulary_) bytes += heap_bytes(token);
  return bytes;
}

std::int32_t Model::find(std::string_view spelled) const {
  const auto found = vocabulary_.find(spelled);
  return found == vocabulary_.end() ? -1 : found->second;
}

std::int32_t Model::character_id(char32_t character, std::string_view spelled) const {
  return character < alphabet_.size() ? alphabet_[character] : find(spelled);
}

void Model::encode(std::string_view word, ModelScratch& scratch,
                   std::vector<std::int32_t>& out) const {
  if (word.size() <= WordCache::kWordBytes) {
    encode_short(word, scratch, out);
  } else {
    encode_long(word, scratch, out);
  }
}

void Model::encode_short(std::string_view word, ModelScratch& scratch,
                         std::vector<std::int32_t>& out) const {
  WordCache::Slot& slot = scratch.cache.slot(word);
  if (slot.text() == word) {
    out.insert(out.end(), slot.ids.begin(), slot.ids.begin() + slot.count);
    return;
  }
  const std::size_t before = out.size();
  if (!take_whole(word, out)) {
    split_units(word, scratch);
    merge(scratch.ids, scratch, out);
  }
  WordCache::fill(slot, word, std::span(out).subspan(before));
}

void Model::encode_long(std::string_view word, ModelScratch& scratch,
                        std::vector<std::int32_t>& out) const {
  if (take_whole(word, out)) return;
  const bool separable = split_units(word, scratch);
  if (!separable || joined_.empty()) return merge(scratch.ids, scratch, out);

  const auto& units = scratch.units;
  const std::span<std::int32_t> ids(scratch.ids);
  for (std::size_t first = 0, last = 0; first < units.size(); first = last) {
    do {
      ++last;
    } while (last < units.size() && may_join(ids[units[last].id - 1], ids[units[last].id]));
    const bool at_end = last == units.size();
    const std::size_t byte_end = at_end ? word.size() : units[last].byte;
    const std::size_t id_end = at_end ? ids.size() : units[last].id;
    const std::string_view part = word.substr(units[first].byte, byte_end - units[first].byte);
    const auto part_ids = ids.subspan(units[first].id, id_end - units[first].id);
    if (part.size() > WordCache::kWordBytes) {
      merge(part_ids, scratch, out);
      continue;
    }
    WordCache::Slot& slot = scratch.cache.slot(part);
    if (slot.text() == part) {
      out.insert(out.end(), slot.ids.begin(), slot.ids.begin() + slot.count);
      continue;
    }
    const std::size_t before = out.size();
    merge(part_ids, scratch, out);
    WordCache::fill(slot, part, std::span(out).subspan(before));
  }
}

bool Model::take_whole(std::string_view word, std::vector<std::int32_t>& out) const {
  if (!ignore_merges_) return false;
  const std::int32_t id = bytes_ ? find(spell_bytes(word)) : find(word);
  if (id >= 0) out.push_back(id);
  return id >= 0;
}

// The tokens of the word's characters, before any merge. False where a character is unknown: then
// the tokens of the characters around it may depend on it.
bool Model::split_units(std::string_view word, ModelScratch& scratch) const {
  scratch.units.clear();
  scratch.ids.clear();
  bool separable = true;
  bool pending = false;  // an unknown token that waits for others to fuse with
  std::string spelled;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    scratch.units.push_back(
        {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(scratch.ids.size())});
    std::int32_t id;
    if (bytes_) {
      id = alphabet_[static_cast<unsigned char>(word[at++])];
    } else {
      const char32_t character = next_character(word, at);
      id = character_id(character, word.substr(begin, at - begin));
    }
    if (id >= 0) {
      if (pending) scratch.ids.push_back(unknown_);
      pending = false;
      scratch.ids.push_back(id);
      continue;
    }
    spelled = word.substr(begin, at - begin);
    if (bytes_) spelled = spell_bytes(spelled);
    const auto token = [&](char byte) { return fallback_[static_cast<unsigned char>(byte)]; };
    if (byte_fallback_ && std::ranges::all_of(spelled, [&](char b) { return token(b) >= 0; })) {
      // An unknown token that waits goes on waiting: it will stand behind these. That is what the
      // tokenizers library does.
      for (const char byte : spelled) scratch.ids.push_back(token(byte));
      continue;
    }
    separable = false;
    if (!has_unknown_) continue;
    if (unknown_ < 0) {
      throw FormatError(fmt::format(
          "{}: the text has the character {}, which is not in the vocabulary, and neither is "
          "the unk_token; use the tokenizer the model was trained with",
          place_, in_quotes(spelled)));
    }
    if (pending && !fuse_unknown_) scratch.ids.push_back(unknown_);
    pending = true;
  }
  if (pending) scratch.ids.push_back(unknown_);
  return separable;
}

bool Model::may_join(std::int32_t left, std::int32_t right) const {
  const std::uint64_t bit = seam_hash(left, right) & (64 * joined_.size() - 1);
  return (joined_[bit / 64] >> bit % 64 & 1) != 0;
}

void Model::merge(std::span<std::int32_t> ids, ModelScratch& scratch,
                  std::vector<std::int32_t>& out) const {
  if (ids.size() <= kFewTokens) {
    merge_few(merges_, ids, out);
  } else {
    merge_many(merges_, ids, scratch.merging, out);
  }
}

}  // namespace ebb::text::bpe
