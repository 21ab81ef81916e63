#include "memory/carver.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ebb/error.h"

namespace ebb::memory {
namespace {

TEST(Carver, CutsAlignedPartsInOrder) {
  std::vector<std::byte> piece(1000);
  Carver carver(piece.data(), 1000);
  EXPECT_EQ(carver.take(1), piece.data());
  EXPECT_EQ(carver.used(), 1);
  EXPECT_EQ(carver.take(64), piece.data() + 64);
  EXPECT_EQ(carver.take(0), piece.data() + 128);
  EXPECT_EQ(carver.take_as<float>(3), reinterpret_cast<float*>(piece.data() + 128));
  EXPECT_EQ(carver.used(), 140);
}

TEST(Carver, GivesTheLastByteAndNotOneMore) {
  std::vector<std::byte> piece(200);
  Carver carver(piece.data(), 200);
  carver.take(100);
  EXPECT_THROW(carver.take(73), Error);
  EXPECT_EQ(carver.used(), 100) << "a refusal takes nothing";
  EXPECT_EQ(carver.take(72), piece.data() + 128);
  EXPECT_THROW(carver.take(1), Error);
  EXPECT_THROW(carver.take(0), Error) << "the next part would start outside";
}

TEST(Carver, RefusesNonsense) {
  std::vector<std::byte> piece(200);
  Carver carver(piece.data(), 200);
  EXPECT_THROW(carver.take(-1), Error);
  EXPECT_THROW(carver.take(std::numeric_limits<Bytes>::max()), Error);
  Carver nothing;
  EXPECT_NO_THROW(nothing.take(0));
  EXPECT_THROW(nothing.take(1), Error);
}

TEST(Carver, SaysWhatWasTooSmall) {
  std::vector<std::byte> piece(128);
  Carver carver(piece.data(), 128);
  carver.take(64);
  try {
    carver.take(65);
    FAIL() << "65 bytes after 64 are not in 128";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a piece of 128 bytes is too small: 65 more wanted after 64");
  }
}

TEST(Carver, MeasuresWhatItWouldTake) {
  const auto carve = [](Carver& carver) {
    carver.take(7);
    carver.take_as<double>(100);
    carver.take(65);
  };
  Carver measuring = Carver::measuring();
  carve(measuring);
  std::vector<std::byte> piece(static_cast<std::size_t>(measuring.used()));
  Carver exact(piece.data(), measuring.used());
  EXPECT_NO_THROW(carve(exact));
  Carver short_by_one(piece.data(), measuring.used() - 1);
  EXPECT_THROW(carve(short_by_one), Error);
}

}  // namespace
}  // namespace ebb::memory
