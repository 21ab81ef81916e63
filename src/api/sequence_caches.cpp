#include "api/sequence_caches.h"

#include <algorithm>
#include <utility>

#include "base/to_size.h"

namespace ebb::api {

SequenceCaches::SequenceCaches(engine::Generator& generator)
    : generator_(generator),
      slice_(generator.plan().slice.workload.tokens),
      sequences_(to_size(generator.sequences())) {}

bool SequenceCaches::any_free() const {
  return !std::ranges::all_of(sequences_, &Sequence::in_use);
}

std::int64_t SequenceCaches::usable(const Sequence& sequence, std::span<const std::int32_t> prompt,
                                    PrefixReuse reuse) const {
  const auto same = std::ranges::mismatch(sequence.tokens, prompt);
  // Logits are those behind the last token that is computed: one must be left.
  const std::int64_t kept = std::min(same.in1 - sequence.tokens.begin(), std::ssize(prompt) - 1);
  return reuse == PrefixReuse::all ? kept : std::min(kept, sequence.sliced) / slice_ * slice_;
}

SequenceCaches::Begun SequenceCaches::begin(std::span<const std::int32_t> prompt,
                                            PrefixReuse reuse) {
  int best = -1, from = -1;
  std::int64_t kept = -1, most = -1;
  for (int i = 0; i < generator_.sequences(); ++i) {
    const Sequence& each = sequences_[to_size(i)];
    const std::int64_t has = usable(each, prompt, reuse);
    if (has > most) from = i, most = has;
    if (each.in_use) continue;
    // Of equals the one that has least to lose.
    const bool shorter =
        best >= 0 && has == kept && each.tokens.size() < sequences_[to_size(best)].tokens.size();
    if (has > kept || shorter) best = i, kept = has;
  }
  Sequence& own = sequences_[to_size(best)];
  if (most > kept) {
    generator_.copy(from, best, most);
    kept = most;
    own.sliced = sequences_[to_size(from)].sliced;
  } else {
    generator_.keep(kept, best);
  }
  own.in_use = true;
  own.sliced = std::min(own.sliced, kept / slice_ * slice_);
  own.tokens.assign(prompt.begin(), prompt.begin() + kept);
  return {best, kept};
}

std::span<const std::int32_t> SequenceCaches::next_slice(int sequence,
                                                         std::span<const std::int32_t> prompt) {
  Sequence& own = sequences_[to_size(sequence)];
  const auto rest = prompt.subspan(own.tokens.size());
  const auto slice = rest.first(std::min(to_size(slice_), rest.size()));
  const bool whole = std::ssize(slice) == slice_ && own.sliced == std::ssize(own.tokens);
  own.tokens.insert(own.tokens.end(), slice.begin(), slice.end());
  if (whole) own.sliced += slice_;
  return slice;
}

void SequenceCaches::release(int sequence, std::vector<std::int32_t> tokens) {
  Sequence& own = sequences_[to_size(sequence)];
  own.in_use = false;
  own.tokens = std::move(tokens);
  own.tokens.resize(std::min(own.tokens.size(), to_size(generator_.length(sequence))));
}

void SequenceCaches::forget() {
  for (int i = 0; i < generator_.sequences(); ++i) {
    sequences_[to_size(i)] = {};
    generator_.reset(i);
  }
}

}  // namespace ebb::api
