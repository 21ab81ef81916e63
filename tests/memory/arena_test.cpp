#include "memory/arena.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

#include "ebb/error.h"

namespace ebb::memory {
namespace {

Arena arena_of(Bytes bytes) {
  return {"device", device::create_device("cpu")->allocate_device(bytes)};
}

TEST(Arena, HandsOutAddressesWithinItself) {
  const Arena arena = arena_of(1000);
  EXPECT_EQ(arena.size(), 1000);
  std::byte* start = arena.at(0, 1000);
  EXPECT_EQ(arena.at(0, 0), start);
  EXPECT_EQ(arena.at(256, 744), start + 256);
  EXPECT_EQ(arena.at(1000, 0), start + 1000);
}

TEST(Arena, RefusesWhatIsOutside) {
  const Arena arena = arena_of(1000);
  constexpr Bytes most = std::numeric_limits<Bytes>::max();
  for (const auto& [offset, bytes] : std::vector<std::pair<Bytes, Bytes>>{
           {0, 1001}, {1, 1000}, {1001, 0}, {-1, 1}, {0, -1}, {most, 1}, {1, most}, {most, most}}) {
    EXPECT_THROW(arena.at(offset, bytes), Error) << bytes << " bytes at " << offset;
  }
  try {
    arena.at(900, 101);
    FAIL() << "one byte is outside";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "device arena of 1000 bytes: 101 bytes at 900 are outside");
  }
}

TEST(Arena, MayBeEmpty) {
  const Arena arena = arena_of(0);
  EXPECT_EQ(arena.size(), 0);
  EXPECT_NO_THROW(arena.at(0, 0));
  EXPECT_THROW(arena.at(0, 1), Error);
}

TEST(Arena, RemembersTheHighestTouch) {
  Arena arena = arena_of(1000);
  EXPECT_EQ(arena.high_water(), 0);
  arena.touch(100, 50);
  EXPECT_EQ(arena.high_water(), 150);
  arena.touch(0, 10);
  EXPECT_EQ(arena.high_water(), 150);
  arena.touch(149, 2);
  EXPECT_EQ(arena.high_water(), 151);
}

TEST(Arena, RemembersTheHighestTouchOfManyThreads) {
  Arena arena = arena_of(kMiB);
  std::vector<std::thread> threads;
  for (Bytes t = 0; t < 4; ++t) {
    threads.emplace_back([&arena, t] {
      for (Bytes i = 0; i < 10'000; ++i) arena.touch(4 * ((i * 7919) % 10'000) + t, 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.high_water(), 4 * 9'999 + 3 + 1);
}

}  // namespace
}  // namespace ebb::memory
