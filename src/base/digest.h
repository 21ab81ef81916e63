// A running 128-bit hash (XXH3) of bytes: for digests of states and checksums of files. Not against
// an adversary, against accidents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ebb {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void add(std::span<const std::byte> bytes);
  // 32 hexadecimal digits of all that was added so far.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 64 bits of the same hash, for bytes that are checked by the gigabyte.
std::uint64_t checksum(std::span<const std::byte> bytes);

// The length first, so that no two lists of strings give the same bytes.
void add_sized(Digest& digest, std::string_view text);

}  // namespace ebb
