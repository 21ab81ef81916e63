// The disk tier's memory: what was written is read, from several folders of any size; what a drive
// made of it otherwise is noticed.
#include "exec/disk_space.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>

#include <fmt/format.h>

#include "base/rng.h"
#include "ebb/error.h"
#include "io/temp_folder.h"

namespace ebb::exec {
namespace {

constexpr Bytes kGrain = DiskSpace::kGrain;

// Of this process alone: tests run beside each other, and a tier's file has a name for a moment.
std::filesystem::path folder(const std::string& name) {
  static const io::TempFolder all;
  const std::filesystem::path path = all / name;
  std::filesystem::create_directories(path);
  return path;
}

struct Free {
  void operator()(std::byte* memory) const { ::operator delete (memory, std::align_val_t{4096}); }
};
using Memory = std::unique_ptr<std::byte, Free>;
Memory memory_of(Bytes bytes) {
  return Memory(static_cast<std::byte*>(
      ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{4096})));
}

void fill(std::byte* to, Bytes bytes, std::uint64_t seed) {
  const CounterRng rng(seed, 5);
  for (Bytes i = 0; i < bytes; i += 8) {
    const std::uint64_t word = rng.bits(static_cast<std::uint64_t>(i));
    std::memcpy(to + i, &word, 8);
  }
}

class Disks : public testing::TestWithParam<bool> {
 protected:
  static io::QueueOptions options() {
    io::QueueOptions made;
    made.uring = GetParam();
    return made;
  }
};
INSTANTIATE_TEST_SUITE_P(Queues, Disks, testing::Bool(), [](const auto& info) {
  return info.param ? "as_the_system_has_it" : "threads";
});

// Grains at random, some many times, against a copy in memory.
TEST_P(Disks, ReadWhatWasWritten) {
  const std::vector<std::vector<DiskFolder>> all = {
      {{folder("a"), 64 * kMiB}},
      {{folder("a"), 7 * kMiB}, {folder("b"), 64 * kMiB}},
      {{folder("a"), 3 * kMiB}, {folder("b"), 5 * kMiB}, {folder("c"), 11 * kMiB}},
      {{folder("a"), kMiB}, {folder("b"), kMiB - 1}, {folder("c"), 17 * kMiB}}};
  for (const auto& folders : all) {
    const Bytes bytes = 17 * kMiB + 3 * kGrain;
    SCOPED_TRACE(fmt::format("{} folders", folders.size()));
    DiskSpace space("disk", bytes, folders, options());
    const Memory copy = memory_of(bytes), part = memory_of(bytes);
    std::memset(copy.get(), 0, static_cast<std::size_t>(bytes));
    space.prepare(part.get(), bytes);
    const CounterRng rng(folders.size(), 3);
    for (std::uint64_t i = 0; i < 60; ++i) {
      const Bytes first = static_cast<Bytes>(rng.below(3 * i, bytes / kGrain)) * kGrain;
      const Bytes most = std::min<Bytes>(bytes - first, 5 * kMiB) / kGrain;
      const Bytes count = (1 + static_cast<Bytes>(rng.below(3 * i + 1, most))) * kGrain;
      switch (rng.below(3 * i + 2, 5)) {
        case 0: space.clear(first, count), std::memset(copy.get() + first, 0, count); break;
        case 1:
        case 2:
          fill(copy.get() + first, count, i);
          std::memcpy(part.get() + first, copy.get() + first, count);
          space.write(first, part.get() + first, count);
          break;
        default:
          space.read(first, part.get(), count);
          ASSERT_EQ(std::memcmp(part.get(), copy.get() + first, count), 0) << i << ", " << first;
      }
    }
    space.read(0, part.get(), bytes);
    EXPECT_EQ(std::memcmp(part.get(), copy.get(), bytes), 0);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder("a")));
}

// As two lanes that read and two that write do.
TEST_P(Disks, ServeSeveralLanesAtOnce) {
  constexpr Bytes each = 4 * kMiB;
  DiskSpace space("disk", 4 * each, {{folder("a"), 9 * kMiB}, {folder("b"), kGiB}}, options());
  std::vector<std::thread> lanes;
  std::atomic<int> wrong = 0;
  for (int lane = 0; lane < 4; ++lane) {
    lanes.emplace_back([&, lane] {
      const Memory to = memory_of(each), from = memory_of(each);
      for (std::uint64_t round = 0; round < 10; ++round) {
        fill(from.get(), each, round * 4 + static_cast<std::uint64_t>(lane));
        space.write(lane * each, from.get(), each);
        space.read(lane * each, to.get(), each);
        wrong += std::memcmp(to.get(), from.get(), each) != 0;
      }
    });
  }
  for (std::thread& lane : lanes) lane.join();
  EXPECT_EQ(wrong, 0);
}

// One bit of a grain, in any place of a long read.
TEST_P(Disks, NoticeBitsThatChanged) {
  for (const Bytes at : {Bytes{0}, 3 * kMiB + 5, 4 * kMiB - 1}) {
    io::QueueOptions lying = options();
    const std::byte* start = nullptr;
    lying.hook = [&](io::Direction direction, const io::DirectRequest& request,
                     std::int64_t result) -> std::optional<std::int64_t> {
      const Bytes first = request.memory - start;
      if (direction == io::Direction::read && first <= at && at < first + request.bytes) {
        request.memory[at - first] ^= std::byte{0x10};
      }
      return result;
    };
    DiskSpace space("disk", 4 * kMiB, {{folder("a"), kGiB}}, lying);
    const Memory data = memory_of(4 * kMiB);
    start = data.get();
    fill(data.get(), 4 * kMiB, 1);
    space.write(0, data.get(), 4 * kMiB);
    try {
      space.read(0, data.get(), 4 * kMiB);
      ADD_FAILURE() << "a changed bit at " << at << " was taken";
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find(folder("a").string()), std::string::npos);
      EXPECT_NE(std::string(error.what()).find(std::to_string(at / kGrain * kGrain)),
                std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("--disk"), std::string::npos);
    }
  }
}

// A write that never reached the drive, though it said so.
TEST_P(Disks, NoticeWritesThatWereLost) {
  DiskSpace space("disk", 2 * kGrain, {{folder("a"), kGiB}}, options());
  const Memory data = memory_of(2 * kGrain), old = memory_of(2 * kGrain);
  fill(old.get(), 2 * kGrain, 1);
  fill(data.get(), 2 * kGrain, 2);
  space.write(0, old.get(), 2 * kGrain);
  bool swap = false;
  io::QueueOptions losing = options();
  losing.hook = [&](io::Direction direction, const io::DirectRequest& request,
                    std::int64_t result) -> std::optional<std::int64_t> {
    if (swap && direction == io::Direction::read) {
      std::memcpy(request.memory, old.get(), static_cast<std::size_t>(request.bytes));
    }
    return result;
  };
  DiskSpace lost("disk", 2 * kGrain, {{folder("a"), kGiB}}, losing);
  lost.write(0, old.get(), 2 * kGrain);
  lost.write(0, data.get(), 2 * kGrain);
  EXPECT_NO_THROW(lost.read(0, data.get(), 2 * kGrain));
  swap = true;
  EXPECT_THROW(lost.read(0, data.get(), 2 * kGrain), IoError);
}

TEST(DiskSpace, RefusesWhatIsNotWholeGrains) {
  DiskSpace space("disk", 4 * kGrain, {{folder("a"), kGiB}});
  const Memory data = memory_of(4 * kGrain);
  EXPECT_THROW(space.read(1, data.get(), kGrain), Error);
  EXPECT_THROW(space.read(0, data.get(), kGrain - 512), Error);
  EXPECT_THROW(space.write(0, data.get() + 8, kGrain), Error);
  EXPECT_THROW(space.write(3 * kGrain, data.get(), 2 * kGrain), Error);
  EXPECT_THROW(space.at(0, 1), Error);
  EXPECT_THROW(DiskSpace("disk", 5 * kMiB, {{folder("a"), 2 * kMiB}, {folder("b"), 2 * kMiB}}),
               OutOfBudget);
}

}  // namespace
}  // namespace ebb::exec
