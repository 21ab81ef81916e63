// Which two neighbouring tokens become one, and which pair goes first.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/heap_bytes.h"

namespace ebb::text::bpe {

struct Merge {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t rank = kNone;  // lower goes first
  std::int32_t id = -1;        // what the two become
};

// A flat hash table: one cache line for most questions. Immutable once filled. Where a pair lies
// depends on a number that nobody knows beforehand, so no file can put all its pairs in one place.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges) : slots_(std::bit_ceil(2 * merges + 2)) {
    shift_ = 64 - std::countr_zero(slots_.size());
    std::random_device random;
    factor_ = std::uint64_t{random()} << 32 | random() | 1;
  }

  // The last of two merges of one pair holds.
  void insert(std::int32_t left, std::int32_t right, Merge merge) {
    Slot& slot = slots_[find_slot(key_of(left, right))];
    slot = {key_of(left, right), merge};
  }

  Bytes memory_bytes() const { return heap_bytes(slots_); }

  // Rank kNone where the two do not merge.
  Merge find(std::int32_t left, std::int32_t right) const {
    return slots_[find_slot(key_of(left, right))].merge;
  }

  // The most slots that a question looks at.
  std::size_t longest_search() const {
    std::size_t longest = 0;
    std::size_t run = 0;
    for (std::size_t i = 0; i < 2 * slots_.size(); ++i) {
      run = slots_[i % slots_.size()].key == kFree ? 0 : run + 1;
      longest = std::max(longest, run + 1);
    }
    return longest;
  }

 private:
  struct Slot {
    std::uint64_t key = kFree;
    Merge merge;
  };
  static constexpr std::uint64_t kFree = std::numeric_limits<std::uint64_t>::max();

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t find_slot(std::uint64_t key) const {
    std::size_t at = (key ^ key >> 29) * factor_ >> shift_;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
  int shift_ = 0;
  std::uint64_t factor_ = 1;
};

}  // namespace ebb::text::bpe
