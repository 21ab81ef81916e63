// Which two neighbouring tokens become one, and which pair goes first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/heap_bytes.h"

namespace ebb::text::bpe {

struct Merge {
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t rank = kNone;  // lower goes first
  std::int32_t id = -1;        // what the two become
};

// A flat hash table: one cache line for most questions. Immutable once filled.
class MergeTable {
 public:
  explicit MergeTable(std::size_t merges) : slots_(std::bit_ceil(2 * merges + 2)) {
    shift_ = 64 - std::countr_zero(slots_.size());
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
    std::size_t at = (key ^ key >> 29) * 0x9e3779b97f4a7c15u >> shift_;
    while (slots_[at].key != key && slots_[at].key != kFree) at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
  int shift_ = 0;
};

}  // namespace ebb::text::bpe
