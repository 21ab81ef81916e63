#include "base/digest.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"

namespace ebb {
namespace {

std::vector<std::byte> sample(std::size_t size) {
  const CounterRng rng(1, 0);
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(rng.bits(i));
  return bytes;
}

std::string digest_of(std::span<const std::byte> bytes) {
  Digest digest;
  digest.add(bytes);
  return digest.hex();
}

// Checkpoints keep digests, so the function must stay what it is: XXH3, 128 bits, seed 0.
TEST(Digest, OfNothingIsXxh3s) {
  EXPECT_EQ(Digest().hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_of({}), "99aa06d3014798d86001c324468d497f");
}

TEST(Digest, OfPiecesIsThatOfTheWhole) {
  for (std::size_t size : {0, 1, 16, 17, 240, 241, 1023, 1024, 1025, 70'001}) {
    const std::vector<std::byte> bytes = sample(size);
    const std::string whole = digest_of(bytes);
    for (std::size_t piece : {1, 7, 64, 1000}) {
      Digest digest;
      for (std::size_t at = 0; at < size; at += piece) {
        digest.add(std::span(bytes).subspan(at, std::min(piece, size - at)));
      }
      ASSERT_EQ(digest.hex(), whole) << size << " bytes in pieces of " << piece;
    }
  }
}

TEST(Digest, ChangesWithEveryBit) {
  std::vector<std::byte> bytes = sample(300);
  const std::string before = digest_of(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto flip = std::byte{1} << (bit % 8);
    bytes[bit / 8] ^= flip;
    ASSERT_NE(digest_of(bytes), before) << "bit " << bit;
    bytes[bit / 8] ^= flip;
  }
}

TEST(Digest, IsReadWithoutEndingIt) {
  const std::vector<std::byte> bytes = sample(500);
  Digest digest;
  digest.add(std::span(bytes).first(200));
  EXPECT_EQ(digest.hex(), digest.hex());
  digest.add(std::span(bytes).subspan(200));
  EXPECT_EQ(digest.hex(), digest_of(bytes));
}

TEST(Digest, MovesWithWhatItHolds) {
  const std::vector<std::byte> bytes = sample(500);
  Digest first;
  first.add(std::span(bytes).first(200));
  Digest second = std::move(first);
  second.add(std::span(bytes).subspan(200));
  EXPECT_EQ(second.hex(), digest_of(bytes));
}

}  // namespace
}  // namespace ebb
