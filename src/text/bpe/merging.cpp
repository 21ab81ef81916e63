#include "text/bpe/merging.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>

namespace ebb::text::bpe {

void merge_few(const MergeTable& merges, std::span<std::int32_t> ids,
               std::vector<std::int32_t>& out) {
  std::size_t count = ids.size();
  std::array<Merge, kFewTokens> pairs;  // of each token and the next
  for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(ids[i], ids[i + 1]);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == Merge::kNone) break;
    ids[best] = pairs[best].id;
    --count;
    for (std::size_t i = best + 1; i < count; ++i) ids[i] = ids[i + 1];
    for (std::size_t i = best + 1; i + 1 < count; ++i) pairs[i] = pairs[i + 1];
    if (best > 0) pairs[best - 1] = merges.find(ids[best - 1], ids[best]);
    if (best + 1 < count) pairs[best] = merges.find(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

void merge_many(const MergeTable& merges, std::span<std::int32_t> ids, MergingScratch& scratch,
                std::vector<std::int32_t>& out) {
  constexpr std::uint32_t kNowhere = std::numeric_limits<std::uint32_t>::max();
  const auto count = static_cast<std::uint32_t>(ids.size());
  auto& previous = scratch.previous;
  auto& next = scratch.next;
  auto& ranks = scratch.ranks;
  auto& queue = scratch.queue;
  previous.resize(count);
  next.resize(count);
  ranks.assign(count, Merge::kNone);
  queue.clear();
  // Ordered by rank, then place. An entry whose rank is no longer that of its place is stale.
  const auto entry = [](std::uint32_t rank, std::uint32_t place) {
    return static_cast<std::uint64_t>(rank) << 32 | place;
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    previous[i] = i == 0 ? kNowhere : i - 1;
    next[i] = i + 1 == count ? kNowhere : i + 1;
    if (i + 1 == count) break;
    ranks[i] = merges.find(ids[i], ids[i + 1]).rank;
    if (ranks[i] != Merge::kNone) queue.push_back(entry(ranks[i], i));
  }
  std::ranges::make_heap(queue, std::greater<>());

  const auto look_again = [&](std::uint32_t left) {
    ranks[left] =
        next[left] == kNowhere ? Merge::kNone : merges.find(ids[left], ids[next[left]]).rank;
    if (ranks[left] == Merge::kNone) return;
    queue.push_back(entry(ranks[left], left));
    std::ranges::push_heap(queue, std::greater<>());
  };
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater<>());
    const auto left = static_cast<std::uint32_t>(queue.back());
    const auto rank = static_cast<std::uint32_t>(queue.back() >> 32);
    queue.pop_back();
    if (ranks[left] != rank) continue;
    const std::uint32_t right = next[left];
    ids[left] = merges.find(ids[left], ids[right]).id;
    next[left] = next[right];
    if (next[left] != kNowhere) previous[next[left]] = left;
    ranks[right] = Merge::kNone;
    look_again(left);
    if (previous[left] != kNowhere) look_again(previous[left]);
  }
  for (std::uint32_t i = 0; i != kNowhere; i = next[i]) out.push_back(ids[i]);
}

}  // namespace ebb::text::bpe
