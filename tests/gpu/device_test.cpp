#include <atomic>
#include <chrono>
#include <cstring>
#include <latch>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "device/stream_times.h"
#include "ebb/error.h"
#include "gpu_test.h"

namespace ebb::device {
namespace {

class GpuDevice : public GpuTest {
 protected:
  static constexpr Bytes kSize = 64 * kMiB;

  // Keeps the stream busy for some milliseconds, so that an order that is not kept shows.
  void occupy(Stream& stream, Buffer& memory) {
    stream.submit([&] {
      for (int i = 0; i < 200; ++i) stream.fill(memory.data(), 0x11, memory.bytes());
    });
  }
  std::vector<std::uint8_t> read(const void* from, Bytes bytes) {
    std::vector<std::uint8_t> found(static_cast<std::size_t>(bytes));
    gpu().create_stream(StreamKind::copy, "read")->copy_now(found.data(), from, bytes);
    return found;
  }
};

TEST_F(GpuDevice, SaysWhatItIs) {
  EXPECT_EQ(gpu().kind(), "cuda");
  EXPECT_FALSE(gpu().name().empty());
  EXPECT_GT(gpu().device_memory(), kGiB);
  EXPECT_GT(gpu().host_memory(), kGiB);
  const CudaDescription about = describe_cuda();
  EXPECT_EQ(about.name, gpu().name());
  EXPECT_GE(about.memory, about.free_memory);
  EXPECT_FALSE(about.driver_version.empty());
  EXPECT_FALSE(about.pci_address.empty());
}

TEST_F(GpuDevice, CopiesBothWays) {
  const Bytes size = 3 * kMiB + 17;
  const auto host = gpu().allocate_host(size);
  const auto back = gpu().allocate_host(size);
  const auto memory = gpu().allocate_device(size);
  for (Bytes i = 0; i < size; ++i) host->data()[i] = static_cast<std::byte>(i * 7 + i / 251);
  const auto stream = gpu().create_stream(StreamKind::copy, "copy");
  stream->submit([&] {
    stream->copy(memory->data(), host->data(), size);
    stream->copy(back->data(), memory->data(), size);
  });
  stream->synchronize();
  EXPECT_EQ(std::memcmp(host->data(), back->data(), static_cast<std::size_t>(size)), 0);
  EXPECT_GT(stream->busy_seconds(), 0.0);
}

// Host memory is registered in pieces of 1 GiB: a copy or a fill that spans two is cut there.
TEST_F(GpuDevice, CopiesAcrossTheSeamOfTwoPieces) {
  const auto host = gpu().allocate_host(kGiB + 8 * kMiB);
  const auto memory = gpu().allocate_device(2 * kMiB);
  const auto stream = gpu().create_stream(StreamKind::copy, "copy");
  std::byte* seam = host->data() + kGiB - kMiB + 5;
  for (Bytes i = 0; i < 2 * kMiB; ++i) seam[i] = static_cast<std::byte>(i * 13 + i / 241);
  stream->submit([&] { stream->copy(memory->data(), seam, 2 * kMiB); });
  stream->synchronize();
  const std::vector<std::uint8_t> found = read(memory->data(), 2 * kMiB);
  EXPECT_EQ(std::memcmp(found.data(), seam, found.size()), 0);
  std::vector<std::uint8_t> unpinned(static_cast<std::size_t>(2 * kMiB));
  stream->copy_now(unpinned.data(), seam, 2 * kMiB);
  EXPECT_EQ(unpinned, found);
  stream->submit([&] { stream->fill(seam, 0x5a, 2 * kMiB); });
  stream->synchronize();
  for (Bytes i = 0; i < 2 * kMiB; ++i) ASSERT_EQ(seam[i], std::byte{0x5a}) << i;
}

TEST_F(GpuDevice, RefusesWhatIsNotPinned) {
  const auto memory = gpu().allocate_device(kMiB);
  const auto host = gpu().allocate_host(kMiB);
  std::vector<std::uint8_t> unpinned(static_cast<std::size_t>(kMiB), 3);
  const auto stream = gpu().create_stream(StreamKind::copy, "copy");
  stream->submit([&] {
    EXPECT_THROW(stream->copy(memory->data(), unpinned.data(), kMiB), DeviceError);
    EXPECT_THROW(stream->copy(unpinned.data(), memory->data(), kMiB), DeviceError);
    EXPECT_THROW(stream->copy(memory->data() + 1, host->data(), kMiB),
                 DeviceError);  // past its end
    EXPECT_THROW(stream->copy(host->data(), host->data() + kMiB / 2, kMiB / 2), DeviceError);
    EXPECT_THROW(stream->fill(unpinned.data(), 0, kMiB), DeviceError);
  });
  stream->copy_now(memory->data(), unpinned.data(), kMiB);
  EXPECT_EQ(read(memory->data(), kMiB), unpinned);
}

TEST_F(GpuDevice, MemoryThatWasGivenBackIsUnknownAgain) {
  const auto memory = gpu().allocate_device(kMiB);
  auto host = gpu().allocate_host(kMiB);
  std::byte* gone = host->data();
  host.reset();
  const auto stream = gpu().create_stream(StreamKind::copy, "copy");
  stream->submit([&] { EXPECT_THROW(stream->copy(memory->data(), gone, kMiB), DeviceError); });
}

TEST_F(GpuDevice, SaysHowMuchItCouldNotAllocate) {
  const Bytes too_much = Bytes{1} << 50;
  for (const bool on_device : {true, false}) {
    try {
      const auto buffer =
          on_device ? gpu().allocate_device(too_much) : gpu().allocate_host(too_much);
      FAIL() << "a PiB was allocated";
    } catch (const DeviceError& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(too_much)), std::string::npos)
          << error.what();
    }
  }
  // The failure is not a later call's.
  const auto memory = gpu().allocate_device(kMiB);
  const auto stream = gpu().create_stream(StreamKind::compute, "compute");
  stream->submit([&] { stream->fill(memory->data(), 1, kMiB); });
  EXPECT_NO_THROW(stream->synchronize());
}

TEST_F(GpuDevice, BuffersOfNothingAreFine) {
  EXPECT_EQ(gpu().allocate_device(0)->bytes(), 0);
  EXPECT_EQ(gpu().allocate_host(0)->bytes(), 0);
}

TEST_F(GpuDevice, StreamsOfTheGpuWaitForEachOther) {
  const auto busy = gpu().allocate_device(kSize);
  const auto memory = gpu().allocate_device(kSize);
  const auto compute = gpu().create_stream(StreamKind::compute, "compute");
  const auto copy = gpu().create_stream(StreamKind::copy, "copy");
  const auto host = gpu().allocate_host(kSize);
  const auto filled = gpu().create_event(StreamKind::compute);
  copy->wait(*filled);  // never recorded: past
  for (int round = 1; round <= 4; ++round) {
    occupy(*compute, *busy);
    compute->submit(
        [&] { compute->fill(memory->data(), static_cast<std::uint8_t>(round), kSize); });
    compute->record(*filled);
    copy->wait(*filled);
    copy->submit([&] { copy->copy(host->data(), memory->data(), kSize); });
    copy->synchronize();
    ASSERT_EQ(host->data()[0], static_cast<std::byte>(round));
    ASSERT_EQ(host->data()[kSize - 1], static_cast<std::byte>(round));
  }
}

TEST_F(GpuDevice, TheHostLaneWaitsForTheGpu) {
  const auto busy = gpu().allocate_device(kSize);
  const auto memory = gpu().allocate_device(kMiB);
  const auto pinned = gpu().allocate_host(kMiB);
  const auto compute = gpu().create_stream(StreamKind::compute, "compute");
  const auto host = gpu().create_stream(StreamKind::host, "host");
  const auto came_down = gpu().create_event(StreamKind::compute);
  const auto seen = gpu().create_event(StreamKind::host);
  host->wait(*came_down);  // never recorded: past
  for (int round = 1; round <= 4; ++round) {
    std::byte found{};
    occupy(*compute, *busy);
    compute->submit([&] {
      compute->fill(memory->data(), static_cast<std::uint8_t>(round), kMiB);
      compute->copy(pinned->data(), memory->data(), kMiB);
    });
    compute->record(*came_down);
    host->wait(*came_down);
    host->submit([&] { found = pinned->data()[kMiB - 1]; });
    host->record(*seen);
    seen->synchronize();
    ASSERT_EQ(found, static_cast<std::byte>(round));
  }
  host->synchronize();
}

TEST_F(GpuDevice, TheGpuWaitsForTheHostLane) {
  const auto pinned = gpu().allocate_host(kMiB);
  const auto memory = gpu().allocate_device(kMiB);
  const auto up = gpu().create_stream(StreamKind::copy, "up");
  const auto host = gpu().create_stream(StreamKind::host, "host");
  const auto written = gpu().create_event(StreamKind::host);
  const auto arrived = gpu().create_event(StreamKind::copy);
  up->wait(*written);  // never recorded: past
  up->synchronize();
  std::memset(pinned->data(), 0, static_cast<std::size_t>(kMiB));
  for (int round = 1; round <= 4; ++round) {
    std::latch go(1);
    host->wait(*arrived);  // the last round's copy has read it
    host->submit([&] {
      go.wait();
      std::memset(pinned->data(), round, static_cast<std::size_t>(kMiB));
    });
    host->record(*written);
    up->wait(*written);
    up->submit([&] { up->copy(memory->data(), pinned->data(), kMiB); });
    up->record(*arrived);
    go.count_down();  // only now: the copy was queued long before there was anything to copy
    up->synchronize();
    const std::vector<std::uint8_t> found = read(memory->data(), kMiB);
    ASSERT_EQ(found.front(), round);
    ASSERT_EQ(found.back(), round);
  }
  host->synchronize();
}

// As in a step: the host lane is late, and the event it waits for is recorded again, behind work
// that itself waits for the host lane. Waiting for the later record would never end.
TEST_F(GpuDevice, ALateHostLaneWaitsForTheRecordItWasTold) {
  const auto pinned = gpu().allocate_host(kMiB);
  const auto memory = gpu().allocate_device(kMiB);
  const auto up = gpu().create_stream(StreamKind::copy, "up");
  const auto host = gpu().create_stream(StreamKind::host, "host");
  const auto updated = gpu().create_event(StreamKind::host);
  const auto sent = gpu().create_event(StreamKind::copy);
  const auto send = [&] { up->copy(memory->data(), pinned->data(), kMiB); };
  up->submit(send);
  up->record(*sent);
  std::latch late(1);
  host->submit([&] { late.wait(); });
  host->wait(*sent);  // the first record
  host->submit([&] { std::memset(pinned->data(), 9, static_cast<std::size_t>(kMiB)); });
  host->record(*updated);
  up->wait(*updated);
  up->submit(send);
  up->record(*sent);  // the second, which waits for the host lane
  late.count_down();
  sent->synchronize();
  host->synchronize();
  EXPECT_EQ(read(memory->data(), kMiB).back(), 9);
}

// Numbers go on across many records, and more events than one page of flags has.
TEST_F(GpuDevice, HostEventsByTheThousand) {
  const auto up = gpu().create_stream(StreamKind::copy, "up");
  const auto host = gpu().create_stream(StreamKind::host, "host");
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 3000; ++i) events.push_back(gpu().create_event(StreamKind::host));
  std::atomic<int> ran{0};
  for (int round = 0; round < 3; ++round) {
    for (const auto& event : events) {
      host->submit([&] { ++ran; });
      host->record(*event);
      up->wait(*event);
    }
    up->synchronize();
    EXPECT_EQ(ran, 3000 * (round + 1));
  }
}

TEST_F(GpuDevice, StreamsRefuseEventsOfAnotherKind) {
  const auto compute = gpu().create_stream(StreamKind::compute, "compute");
  const auto of_host = gpu().create_event(StreamKind::host);
  EXPECT_THROW(compute->record(*of_host), DeviceError);
  const auto cpu = create_device("cpu");
  const auto foreign = cpu->create_event(StreamKind::host);
  EXPECT_THROW(compute->wait(*foreign), DeviceError);
}

// What another user of the GPU brings: memory that copies may touch while it is adopted, and a
// stream whose order is kept in both directions, also that of the default stream.
TEST_F(GpuDevice, AdoptsMemoryAndStreamsOfOthers) {
  const auto theirs = create_device("cuda");
  const auto memory = theirs->allocate_device(kSize);
  const auto busy = theirs->allocate_device(kSize);
  const auto stream = theirs->create_stream(StreamKind::compute, "theirs");
  const auto host = gpu().allocate_host(kMiB);
  const auto down = gpu().create_stream(StreamKind::copy, "down");
  const auto ready = gpu().create_event(StreamKind::compute);
  const auto done = gpu().create_event(StreamKind::copy);
  const auto copy = [&] { down->copy(host->data(), memory->data(), kMiB); };
  EXPECT_THROW(down->submit(copy), DeviceError) << "nobody knows that memory";
  {
    const auto known = gpu().adopt_device_memory(memory->data(), kSize);
    const auto foreign = gpu().adopt_stream(static_cast<CudaStream&>(*stream).handle());
    occupy(*stream, *busy);
    stream->submit([&] { stream->fill(memory->data(), 7, kMiB); });
    foreign->record(*ready);
    down->wait(*ready);
    down->submit(copy);
    down->record(*done);
    foreign->wait(*done);
    stream->submit([&] { stream->fill(memory->data(), 8, kMiB); });
    gpu().adopt_stream(nullptr)->record(*ready);
    down->wait(*ready);
    down->synchronize();
    EXPECT_EQ(static_cast<int>(host->data()[kMiB - 1]), 7);
    stream->synchronize();
    EXPECT_EQ(read(memory->data(), kMiB).back(), 8);
  }
  EXPECT_THROW(down->submit(copy), DeviceError) << "it was given back";
  std::vector<std::byte> plain(4096);
  EXPECT_THROW(gpu().adopt_device_memory(plain.data(), 4096), ConfigError);
}

// Time is the work's, not that of the waits before it nor of the thread that queues it.
TEST_F(GpuDevice, BusyTimeIsTheGpusOwn) {
  const auto memory = gpu().allocate_device(kSize);
  const auto compute = gpu().create_stream(StreamKind::compute, "compute");
  EXPECT_EQ(compute->busy_seconds(), 0.0);
  occupy(*compute, *memory);
  compute->synchronize();
  const double busy = compute->busy_seconds();
  EXPECT_GT(busy, 0.0);
  EXPECT_EQ(compute->busy_seconds(), busy);
}

// The GPU's streams are timed by events, the host's by the steady clock.
TEST_F(GpuDevice, TellsWhenWorkRan) {
  expect_times_in_order(gpu());
  expect_one_clock(gpu());
}

// While the GPU is busy, too: what is queued behind is timed from a base that is taken meanwhile.
TEST_F(GpuDevice, TellsWhenWorkRanBehindOtherWork) {
  const auto memory = gpu().allocate_device(kSize);
  const auto compute = gpu().create_stream(StreamKind::compute, "compute");
  const auto before = std::chrono::steady_clock::now();
  std::vector<Interval> ran(20);
  for (Interval& one : ran) {
    compute->submit(
        [&] {
          for (int i = 0; i < 200; ++i) compute->fill(memory->data(), 0x11, kSize);
        },
        &one);
  }
  compute->synchronize();
  const auto after = std::chrono::steady_clock::now();
  std::chrono::duration<double> all{};
  for (std::size_t i = 0; i < ran.size(); ++i) {
    all += ran[i].stop - ran[i].start;
    EXPECT_GT(ran[i].stop, ran[i].start);
    EXPECT_GE(ran[i].start, i == 0 ? before - kClocksAgree : ran[i - 1].stop);
  }
  EXPECT_LE(ran.back().stop, after + kClocksAgree);
  EXPECT_NEAR(all.count(), compute->busy_seconds(), 1e-3 * all.count());
}

}  // namespace
}  // namespace ebb::device
