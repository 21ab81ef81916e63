#include "base/digest.h"

#include <cstdint>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <fmt/format.h>

namespace ebb {

struct Digest::State {
  XXH3_state_t hash;
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->hash); }
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(&state_->hash, bytes.data(), bytes.size());
}

std::string Digest::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void add_sized(Digest& digest, std::string_view text) {
  const std::uint64_t size = text.size();
  digest.add(std::as_bytes(std::span(&size, 1)));
  digest.add(std::as_bytes(std::span(text)));
}

}  // namespace ebb
