// The merges of one word. The result is the same whichever way is taken: again and again the pair
// with the lowest rank, the leftmost of equals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "text/bpe/merge_table.h"

namespace ebb::text::bpe {

// What merging many tokens needs. For one thread at a time.
struct MergingScratch {
  std::vector<std::uint32_t> previous, next, ranks;  // a linked list over the word's tokens
  std::vector<std::uint64_t> queue;
};

// Up to so many tokens, looking at all of them for each merge is faster than a queue.
constexpr std::size_t kFewTokens = 48;

// Appends what becomes of the tokens. `ids` has at most kFewTokens and is used up.
void merge_few(const MergeTable& merges, std::span<std::int32_t> ids,
               std::vector<std::int32_t>& out);

// The same for any count below 2^32, in time that grows as n log n.
void merge_many(const MergeTable& merges, std::span<std::int32_t> ids, MergingScratch& scratch,
                std::vector<std::int32_t>& out);

}  // namespace ebb::text::bpe
