// Short words that were encoded lately. Text repeats itself: most words are found here.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "ebb/units.h"

namespace ebb::text::bpe {

// Of fixed size (2 MiB); a new word takes the place of the one that was there. For one thread at a
// time.
class WordCache {
 public:
  static constexpr std::size_t kWordBytes = 22;
  static constexpr std::size_t kIds = 10;

  // What one holds.
  static constexpr Bytes kBytes = 2 * kMiB;

  // One cache line.
  struct Slot {
    std::uint8_t bytes = 0;  // 0: nothing is here
    std::uint8_t count = 0;
    std::array<char, kWordBytes> word;
    std::array<std::int32_t, kIds> ids;

    std::string_view text() const { return {word.data(), bytes}; }
  };
  static_assert(sizeof(Slot) == 64);

  // The word's slot, which holds it already or may be given it. The word is neither empty nor
  // longer than kWordBytes.
  Slot& slot(std::string_view word) { return slots_[hash(word) >> (64 - kBits)]; }

  static void fill(Slot& slot, std::string_view word, std::span<const std::int32_t> ids) {
    if (ids.size() > kIds) return;
    slot.bytes = static_cast<std::uint8_t>(word.size());
    slot.count = static_cast<std::uint8_t>(ids.size());
    std::memcpy(slot.word.data(), word.data(), word.size());
    if (!ids.empty()) std::memcpy(slot.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr int kBits = 15;

  static std::uint64_t hash(std::string_view word) {
    constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15u;
    std::uint64_t sum = word.size();
    std::uint64_t eight = 0;
    while (word.size() >= sizeof eight) {
      std::memcpy(&eight, word.data(), sizeof eight);
      sum = (sum ^ eight) * kFactor;
      sum ^= sum >> 32;
      word.remove_prefix(sizeof eight);
    }
    eight = 0;
    std::memcpy(&eight, word.data(), word.size());
    sum = (sum ^ eight) * kFactor;
    sum ^= sum >> 29;
    return sum * kFactor;
  }

  static_assert(kBytes == sizeof(Slot) << kBits);
  std::vector<Slot> slots_ = std::vector<Slot>(std::size_t{1} << kBits);
};

}  // namespace ebb::text::bpe
