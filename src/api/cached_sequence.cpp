#include "api/cached_sequence.h"

#include <algorithm>

#include "base/to_size.h"

namespace ebb::api {

std::int64_t CachedSequence::begin(std::span<const std::int32_t> prompt, PrefixReuse reuse) {
  // A call that failed may have left tokens that were never computed.
  tokens_.resize(to_size(std::min(std::ssize(tokens_), generator_.length())));
  const auto same = std::mismatch(tokens_.begin(), tokens_.end(), prompt.begin(), prompt.end());
  std::int64_t kept = same.first - tokens_.begin();
  // Logits are those behind the last token that is computed: one must be left.
  kept = std::min(kept, std::ssize(prompt) - 1);
  if (reuse == PrefixReuse::slices) kept = std::min(kept, sliced_) / slice_ * slice_;
  sliced_ = std::min(sliced_, kept / slice_ * slice_);
  generator_.keep(kept);
  tokens_.resize(to_size(kept));
  return kept;
}

std::span<const float> CachedSequence::advance(std::span<const std::int32_t> tokens,
                                               const std::stop_token& stop) {
  std::span<const float> logits;
  while (!tokens.empty()) {
    if (stop.stop_requested()) return {};
    const std::int64_t count = std::min(slice_, std::ssize(tokens));
    const bool whole = count == slice_ && sliced_ == std::ssize(tokens_);
    const auto slice = tokens.first(to_size(count));
    tokens_.insert(tokens_.end(), slice.begin(), slice.end());
    logits = generator_.advance(slice);
    if (whole) sliced_ += count;
    tokens = tokens.subspan(to_size(count));
  }
  return logits;
}

}  // namespace ebb::api
