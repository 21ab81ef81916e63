#include "text/data/batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>

#include "ebb/error.h"
#include "text/data/permutation.h"

namespace ebb::text {

namespace {

constexpr Bytes kBytesPerToken = 2 * sizeof(std::int32_t);  // as a token and as a target

}  // namespace

Batches::Batches(const TokenSource& source, BatchShape shape, std::uint64_t seed)
    : source_(source), shape_(shape), seed_(seed) {
  if (shape.sequence < 1 || shape.rows < 1) {
    throw ConfigError(
        fmt::format("a batch of {} rows of {} tokens is empty; give a batch of at "
                    "least 1 row and a sequence of at least 1 token",
                    shape.rows, shape.sequence));
  }
  const std::int64_t size = source.size();
  samples_ = (size - 1) / shape.sequence;
  if (size < 2 || samples_ < 1) {
    // Said without adding one to the sequence, which may be as large as an integer can be.
    throw ConfigError(fmt::format(
        "the data has {} tokens, too few for one sample of a sequence of {} tokens and the token "
        "after it; {}",
        size, shape.sequence,
        size < 2 ? std::string("give more data")
                 : fmt::format("give more data or a sequence of at most {}", size - 1)));
  }
  if (shape.rows > std::numeric_limits<Bytes>::max() / kBytesPerToken / shape.sequence) {
    throw ConfigError(
        fmt::format("a batch of {} rows of {} tokens is larger than any memory; "
                    "give fewer rows",
                    shape.rows, shape.sequence));
  }
}

Batch Batches::make(std::int64_t position) const {
  if (position < 0 || position > std::numeric_limits<std::int64_t>::max() - shape_.rows) {
    throw std::out_of_range(fmt::format("batch position {} is out of range", position));
  }
  const auto sequence = static_cast<std::size_t>(shape_.sequence);
  const std::size_t count = static_cast<std::size_t>(shape_.rows) * sequence;
  Batch batch{std::vector<std::int32_t>(count), std::vector<std::int32_t>(count),
              position + shape_.rows};
  for (std::int64_t row = 0; row < shape_.rows; ++row) {
    const auto index = static_cast<std::uint64_t>(position + row);
    const auto samples = static_cast<std::uint64_t>(samples_);
    const Permutation order(samples, seed_, index / samples);
    const std::int64_t first = static_cast<std::int64_t>(order(index % samples)) * shape_.sequence;

    const std::size_t offset = static_cast<std::size_t>(row) * sequence;
    const auto tokens = std::span(batch.tokens).subspan(offset, sequence);
    const auto targets = std::span(batch.targets).subspan(offset, sequence);
    // The last target is read on its own, which spares a buffer of one token more.
    source_.read(first, tokens);
    std::ranges::copy(tokens.subspan(1), targets.begin());
    source_.read(first + shape_.sequence, targets.last(1));
  }
  return batch;
}

Bytes Batches::batch_bytes() const { return shape_.rows * shape_.sequence * kBytesPerToken; }

}  // namespace ebb::text
