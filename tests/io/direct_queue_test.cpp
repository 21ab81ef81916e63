// The contract every DirectQueue keeps.
#include "io/direct/direct_queue.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "io/temp_folder.h"

namespace ebb::io {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

constexpr Bytes kBlock = 4096;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const IoError& error) {
    return error.what();
  }
  return "(no error)";
}

// Memory that direct transfers take.
class Blocks {
 public:
  explicit Blocks(Bytes bytes)
      : bytes_(static_cast<std::size_t>(bytes)),
        data_(static_cast<std::byte*>(std::aligned_alloc(kBlock, bytes_)), std::free) {
    std::memset(data_.get(), 0, bytes_);
  }
  std::byte* data() const { return data_.get(); }
  std::span<std::byte> all() const { return {data_.get(), bytes_}; }
  void fill(unsigned seed) {
    std::mt19937_64 random(seed);
    std::generate_n(reinterpret_cast<std::uint64_t*>(data_.get()), bytes_ / 8, random);
  }
  std::ptrdiff_t first_difference(const Blocks& other) const {
    const auto at = std::mismatch(data_.get(), data_.get() + bytes_, other.data_.get()).first;
    return at == data_.get() + bytes_ ? -1 : at - data_.get();
  }

 private:
  std::size_t bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

class DirectQueueContract : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string note;
    options_.uring = GetParam() == std::string_view("io_uring");
    if (make_direct_queue(options_, &note)->name() != GetParam()) GTEST_SKIP() << note;
  }

  std::unique_ptr<DirectQueue> queue(QueueOptions options = {}) {
    options.uring = options_.uring;
    return make_direct_queue(options, nullptr);
  }

  // `count` requests of one block each from the start of the file and of the memory.
  std::vector<DirectRequest> in_blocks(const Blocks& memory, Bytes count) {
    std::vector<DirectRequest> requests;
    for (Bytes at = 0; at < count * kBlock; at += kBlock) {
      requests.push_back({&file, at, memory.data() + at, kBlock});
    }
    return requests;
  }

  TempFolder folder;
  DirectFile file = DirectFile::create(folder.path(), 64 * kBlock);

 private:
  QueueOptions options_;
};

INSTANTIATE_TEST_SUITE_P(Queues, DirectQueueContract, testing::Values("io_uring", "threads"),
                         [](const auto& info) { return std::string(info.param); });

// Two files cut into pieces of 1 to 32 blocks, in random order, several times more than depth.
struct Pieces {
  Pieces(const DirectFile& first, const DirectFile& second, std::mt19937& random) {
    for (const DirectFile* file : {&first, &second}) {
      for (Bytes at = 0; at < file->size();) {
        const Bytes blocks = std::uniform_int_distribution<Bytes>(1, 32)(random);
        const Bytes bytes = std::min(blocks * kBlock, file->size() - at);
        requests.push_back({file, at, nullptr, bytes});
        at += bytes;
      }
    }
    std::shuffle(requests.begin(), requests.end(), random);
  }
  std::span<const DirectRequest> in(const Blocks& memory, const DirectFile& first) {
    for (DirectRequest& request : requests) {
      request.memory = memory.data() + request.offset + (request.file == &first ? 0 : first.size());
    }
    return requests;
  }
  std::vector<DirectRequest> requests;
};

void write_and_read_back(DirectQueue& queue, const TempFolder& folder, const Blocks& from,
                         const Blocks& to, unsigned seed) {
  std::mt19937 random(seed);
  const Bytes half = static_cast<Bytes>(from.all().size()) / 2;
  const DirectFile first = DirectFile::create(folder.path(), half);
  const DirectFile second = DirectFile::create(folder.path(), half);
  queue.run(Direction::write, Pieces(first, second, random).in(from, first));
  queue.run(Direction::read, Pieces(first, second, random).in(to, first));
  EXPECT_EQ(from.first_difference(to), -1) << "seed " << seed;
}

TEST_P(DirectQueueContract, ReadsWhatItWroteAcrossTwoFiles) {
  const auto queue = this->queue();
  for (const unsigned seed : {1U, 2U, 3U}) {
    Blocks from(8 * kMiB), to(8 * kMiB);
    from.fill(seed);
    write_and_read_back(*queue, folder, from, to, seed);
  }
}

TEST_P(DirectQueueContract, ReadsWhatItWroteOneByOne) {
  const auto queue = this->queue({.depth = 1});
  Blocks from(kMiB), to(kMiB);
  from.fill(4);
  write_and_read_back(*queue, folder, from, to, 4);
}

// Also requests that lie partly, or across two pieces, in what is registered.
TEST_P(DirectQueueContract, RegisteredMemoryHoldsTheSame) {
  const auto queue = this->queue();
  Blocks from(2 * kMiB), to(2 * kMiB);
  from.fill(5);
  const bool taken = queue->register_memory(from.all().subspan(0, kMiB / 2)) &&
                     queue->register_memory(from.all().subspan(kMiB / 2, kMiB)) &&
                     queue->register_memory(to.all().subspan(kMiB));
  RecordProperty("registered", taken ? "yes" : "no");
  write_and_read_back(*queue, folder, from, to, 5);
}

TEST_P(DirectQueueContract, RefusedMemoryLeavesWhatWasRegistered) {
  const auto queue = this->queue();
  Blocks from(kMiB), to(kMiB);
  from.fill(6);
  queue->register_memory(from.all());
  // No memory is there.
  EXPECT_FALSE(queue->register_memory({reinterpret_cast<std::byte*>(kBlock), kBlock}));
  write_and_read_back(*queue, folder, from, to, 6);
}

TEST_P(DirectQueueContract, NothingToMoveIsNoFailure) {
  const auto queue = this->queue();
  queue->run(Direction::read, {});
  const DirectRequest nothing{&file, file.size(), nullptr, 0};
  queue->run(Direction::write, {&nothing, 1});
}

TEST_P(DirectQueueContract, GoesOnAfterShortTransfers) {
  int cut = 0;
  // Each completion is cut to half its blocks, until one is left.
  const auto queue = this->queue({.hook = [&](Direction direction, const DirectRequest& piece,
                                              std::int64_t result) -> std::optional<std::int64_t> {
    if (result <= kBlock) return result;
    const std::int64_t half = result / kBlock / 2 * kBlock;
    // What was not moved must not be there by chance.
    if (direction == Direction::read) std::memset(piece.memory + half, 0, result - half);
    ++cut;
    return half;
  }});
  Blocks from(4 * kMiB), to(4 * kMiB);
  from.fill(7);
  write_and_read_back(*queue, folder, from, to, 7);
  EXPECT_GT(cut, 100);
}

TEST_P(DirectQueueContract, RetriesWhatWasInterrupted) {
  int calls = 0;
  const auto queue = this->queue({.hook = [&](Direction, const DirectRequest&,
                                              std::int64_t result) -> std::optional<std::int64_t> {
    ++calls;
    return calls % 3 == 0 ? -EINTR : calls % 7 == 0 ? -EAGAIN : result;
  }});
  Blocks from(2 * kMiB), to(2 * kMiB);
  from.fill(8);
  write_and_read_back(*queue, folder, from, to, 8);
}

TEST_P(DirectQueueContract, ARequestThatIsOnlyInterruptedFailsInTheEnd) {
  const auto queue =
      this->queue({.patience = std::chrono::milliseconds(50),
                   .hook = [](Direction, const DirectRequest&, std::int64_t) { return -EAGAIN; }});
  const Blocks memory(kBlock);
  EXPECT_THAT(error_of([&] { queue->run(Direction::read, in_blocks(memory, 1)); }),
              HasSubstr("Resource temporarily unavailable"));
}

TEST_P(DirectQueueContract, ATransferThatEndsOffABoundaryFails) {
  const auto queue =
      this->queue({.hook = [](Direction, const DirectRequest&, std::int64_t) { return 1000; }});
  if (!file.direct()) GTEST_SKIP() << "no direct transfers in " << folder.path();
  const Blocks memory(kBlock);
  EXPECT_THAT(error_of([&] { queue->run(Direction::read, in_blocks(memory, 1)); }),
              HasSubstr("wanted 4096 bytes, got 1000: the transfer ended off a block's boundary"));
}

struct Fault {
  Direction direction;
  std::int64_t result;
  const char* text;
};

TEST_P(DirectQueueContract, AFailureNamesItsPlaceAndTheRemedy) {
  for (const Fault& fault :
       {Fault{Direction::read, -EIO, "Input/output error. The drive or its file system fails"},
        Fault{Direction::write, -ENOSPC, "No space left on device. Free room on that drive"},
        Fault{Direction::read, 0, "the file ends there"},
        Fault{Direction::write, 0, "the file system takes no more"}}) {
    const auto queue =
        this->queue({.depth = 8,
                     .hook = [&](Direction, const DirectRequest& piece,
                                 std::int64_t result) -> std::optional<std::int64_t> {
                       return piece.offset == 10 * kBlock ? fault.result : result;
                     }});
    const Blocks memory(41 * kBlock);
    const auto requests = in_blocks(memory, 41);
    EXPECT_THAT(error_of([&] { queue->run(fault.direction, requests); }),
                AllOf(HasSubstr(folder.path().string()),
                      HasSubstr("at offset 40960: wanted 4096 bytes, got 0"), HasSubstr(fault.text),
                      HasSubstr("--disk")));
    // The queue is as good as new, without the bad place.
    queue->run(fault.direction, {requests.data(), 10});
  }
}

TEST_P(DirectQueueContract, AFailureWaitsForTheOthersAndBeginsNoMore) {
  for (const int depth : {1, 8}) {
    int completed = 0;
    const auto queue =
        this->queue({.depth = depth, .hook = [&](Direction, const DirectRequest&, std::int64_t) {
                       ++completed;
                       return -EIO;
                     }});
    const Blocks memory(41 * kBlock);
    EXPECT_THROW(queue->run(Direction::read, in_blocks(memory, 41)), IoError);
    EXPECT_EQ(completed, depth);
  }
}

TEST_P(DirectQueueContract, OfSeveralFailuresTheFirstIsTold) {
  const auto queue =
      this->queue({.hook = [](Direction, const DirectRequest&, std::int64_t) { return -EIO; }});
  const Blocks memory(16 * kBlock);
  EXPECT_THAT(error_of([&] { queue->run(Direction::read, in_blocks(memory, 16)); }),
              HasSubstr("at offset 0:"));
}

TEST_P(DirectQueueContract, NothingTouchesMemoryAfterAFailure) {
  Blocks memory(64 * kBlock);
  memory.fill(9);
  const auto queue = this->queue(
      {.hook = [&, failed = false](Direction direction, const DirectRequest&,
                                   std::int64_t result) mutable -> std::optional<std::int64_t> {
        if (direction == Direction::write || failed) return result;
        failed = true;
        return -EIO;
      }});
  queue->run(Direction::write, in_blocks(memory, 64));
  const Blocks mine(64 * kBlock);
  EXPECT_THROW(queue->run(Direction::read, in_blocks(mine, 64)), IoError);
  std::memset(mine.data(), 0x5a, mine.all().size());
  const Blocks other(64 * kBlock);
  queue->run(Direction::read, in_blocks(other, 64));
  EXPECT_EQ(other.first_difference(memory), -1);
  const auto all_mine = [](std::byte byte) { return byte == std::byte{0x5a}; };
  EXPECT_TRUE(std::all_of(mine.all().begin(), mine.all().end(), all_mine));
}

// These read what was never written, for which no drive is asked, so that only the hook stalls.
TEST_P(DirectQueueContract, AStallBreaksTheQueue) {
  const auto queue = this->queue(
      {.patience = std::chrono::milliseconds(50),
       .hook = [](Direction, const DirectRequest&, std::int64_t) -> std::optional<std::int64_t> {
         return std::nullopt;
       }});
  const Blocks memory(2 * kBlock);
  const DirectRequest request{&file, 3 * kBlock, memory.data(), 2 * kBlock};
  EXPECT_THAT(error_of([&] {
                queue->run(Direction::read, {&request, 1});
              }),
              AllOf(HasSubstr(folder.path().string()),
                    HasSubstr("at offset 12288: wanted 8192 bytes, got 0"),
                    HasSubstr("has not answered for 0.05 s (transfers under way: 1)"),
                    Not(HasSubstr("Before that"))));
  EXPECT_THAT(error_of([&] { queue->run(Direction::read, {&request, 1}); }), HasSubstr("broken"));
}

TEST_P(DirectQueueContract, OneThatStallsStopsAll) {
  const auto queue = this->queue({.depth = 4,
                                  .patience = std::chrono::milliseconds(50),
                                  .hook = [](Direction, const DirectRequest& piece,
                                             std::int64_t result) -> std::optional<std::int64_t> {
                                    if (piece.offset == 3 * kBlock) return std::nullopt;
                                    return result;
                                  }});
  const Blocks memory(20 * kBlock);
  EXPECT_THAT(error_of([&] { queue->run(Direction::read, in_blocks(memory, 20)); }),
              HasSubstr("has not answered"));
}

TEST_P(DirectQueueContract, AStallAfterAFailureTellsBoth) {
  const auto queue =
      this->queue({.patience = std::chrono::milliseconds(100),
                   .hook = [failed = false](Direction, const DirectRequest&,
                                            std::int64_t) mutable -> std::optional<std::int64_t> {
                     if (failed) return std::nullopt;
                     failed = true;
                     return -EIO;
                   }});
  const Blocks memory(2 * kBlock);
  EXPECT_THAT(error_of([&] { queue->run(Direction::read, in_blocks(memory, 2)); }),
              AllOf(HasSubstr("has not answered"), HasSubstr("Before that: cannot read"),
                    HasSubstr("Input/output error")));
}

TEST_P(DirectQueueContract, ALieOfTheDiskIsTheCallersToFind) {
  const auto queue = this->queue({.hook = [](Direction direction, const DirectRequest& piece,
                                             std::int64_t result) -> std::optional<std::int64_t> {
    if (direction == Direction::read && piece.offset == kBlock) {
      piece.memory[100] ^= std::byte{1};
    }
    return result;
  }});
  Blocks from(4 * kBlock), to(4 * kBlock);
  from.fill(10);
  queue->run(Direction::write, in_blocks(from, 4));
  queue->run(Direction::read, in_blocks(to, 4));
  EXPECT_EQ(from.first_difference(to), kBlock + 100);
}

TEST_P(DirectQueueContract, RefusesWhatLiesOutsideTheFile) {
  const auto queue = this->queue();
  const Blocks memory(2 * kBlock);
  const DirectRequest beyond{&file, file.size() - kBlock, memory.data(), 2 * kBlock};
  EXPECT_THAT(error_of([&] {
                queue->run(Direction::write, {&beyond, 1});
              }),
              HasSubstr("wanted 8192 bytes, but its file has 262144"));
}

TEST_P(DirectQueueContract, SaysWhatMisalignedRequestsLack) {
  const auto queue = this->queue();
  const Blocks memory(2 * kBlock);
  const DirectRequest odd{&file, 0, memory.data() + 1, kBlock};
  const std::string error = error_of([&] { queue->run(Direction::read, {&odd, 1}); });
  // Some file systems take any address, through a copy.
  EXPECT_THAT(error, AnyOf("(no error)", HasSubstr("multiples of the drive's block")));
}

TEST(MakeDirectQueue, SaysWhyItIsNotWhatWasAskedFor) {
  std::string note = "old";
  EXPECT_EQ(make_direct_queue({.uring = false}, &note)->name(), "threads");
  EXPECT_EQ(note, "");
  // More entries than any kernel gives.
  EXPECT_EQ(make_direct_queue({.depth = 1 << 17}, &note)->name(), "threads");
  EXPECT_THAT(note, HasSubstr("io_uring"));
  EXPECT_EQ(make_direct_queue({.depth = 1 << 17}, nullptr)->name(), "threads");
  EXPECT_THROW(make_direct_queue({.depth = 0}, nullptr), ConfigError);
}

}  // namespace
}  // namespace ebb::io
