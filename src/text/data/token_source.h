// A stream of tokens that can be read from anywhere: what batches are cut from.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ebb::text {

// Immutable once built, so any number of threads may read at once.
class TokenSource {
 public:
  virtual ~TokenSource() = default;

  // Tokens in the stream.
  virtual std::int64_t size() const = 0;

  // Fills `out` with the tokens from `first` on. Throws std::out_of_range if they are not all
  // inside the stream, IoError if what holds them can no longer be read.
  virtual void read(std::int64_t first, std::span<std::int32_t> out) const = 0;

  // Changes when the stream does, stays when the data merely moves to another place. It is part of
  // a run's numerics key, so a resume notices that it was given other data.
  virtual std::string digest() const = 0;
};

}  // namespace ebb::text
