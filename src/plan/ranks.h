// How the micro-batches of a step are divided among ranks, so that their number changes no bit.
// Micro-batches form groups, one behind the other, all as large. Within a group gradients are added
// in order in fp32; groups' sums are added in their order in fp32; what comes of it is rounded
// once. Rank r has the groups r, r + count, ...; the owner of a chunk adds them up.
#pragma once

#include <cstdint>

#include "plan/types.h"

namespace ebb::plan {

struct Ranks {
  int count = 1;
  int rank = 0;                    // the one whose program it is
  std::int64_t micro_batches = 1;  // of a step, over all ranks
  std::int64_t groups = 1;         // a divisor of that

  std::int64_t group_size() const { return micro_batches / groups; }
  // Whether gradients go by groups. Else one rank adds them up one by one, which gives the bits of
  // one group as well as of as many as there are micro-batches.
  bool grouped() const { return count > 1 || (groups > 1 && groups < micro_batches); }
  // In each round every rank makes the sum of one of its groups; in the last one the first ranks
  // alone may have one.
  std::int64_t rounds() const { return (groups + count - 1) / count; }
  int senders(std::int64_t round) const {
    const std::int64_t left = groups - round * count;
    return left < count ? static_cast<int>(left) : count;
  }
  bool has_group(std::int64_t round) const { return rank < senders(round); }
  std::int64_t own_groups() const { return rounds() - (has_group(rounds() - 1) ? 0 : 1); }
  std::int64_t own_micro_batches() const { return own_groups() * group_size(); }
  // Which of the step's micro-batches is this rank's i-th.
  std::int64_t place_of(std::int64_t micro) const {
    return (micro / group_size() * count + rank) * group_size() + micro % group_size();
  }
};

}  // namespace ebb::plan
