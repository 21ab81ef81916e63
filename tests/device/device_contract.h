// What every device promises of its streams and events. A device's test file instantiates it:
//
//   INSTANTIATE_TEST_SUITE_P(Cpu, DeviceContract, testing::Values("cpu"));
//
// Streams are held up by gates: work on a host stream, which is a thread on every device, that
// blocks until the test opens it. So order is tested with lanes that are as slow as can be. Events
// outlive the streams that record them and wait for them, and gates go first.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "device/device.h"

namespace ebb::device {

class DeviceContract : public testing::TestWithParam<std::string> {
 protected:
  using StreamPtr = std::unique_ptr<Stream>;
  using EventPtr = std::unique_ptr<Event>;

  void SetUp() override { device_ = create_device(GetParam()); }

  StreamPtr stream(StreamKind kind) { return device_->create_stream(kind, "test"); }
  EventPtr event(StreamKind recorder) { return device_->create_event(recorder); }

  // A stream that stands still until it is opened, at the latest when it goes.
  struct Gate {
    explicit Gate(Stream& stream) {
      stream.submit([opened = opened.get_future().share()] { opened.wait(); });
    }
    ~Gate() { open(); }
    void open() {
      if (!std::exchange(is_open, true)) opened.set_value();
    }
    std::promise<void> opened;
    bool is_open = false;
  };

  // Whether a blocking call returns while gates are closed. A device that breaks the promise would
  // block for good; the limit turns that into a failure.
  template <class Call>
  static bool returns(Gate& gate, Call call) {
    auto done = std::async(std::launch::async, call);
    const bool in_time = done.wait_for(std::chrono::seconds(30)) == std::future_status::ready;
    if (!in_time) gate.open();
    done.get();
    return in_time;
  }

  // Gives work that is wrongly let through the time to run.
  void let_others_run() {
    const auto other = stream(StreamKind::compute);
    for (int i = 0; i < 200; ++i) {
      other->submit([] {});
      other->synchronize();
    }
  }

  // Host memory that the device can copy from and to.
  struct Words {
    Words(Device& device, std::size_t count)
        : buffer(device.allocate_host(static_cast<Bytes>(count * sizeof(std::uint32_t)))) {
      for (std::size_t i = 0; i < count; ++i) (*this)[i] = 0;
    }
    std::uint32_t& operator[](std::size_t i) { return data()[i]; }
    std::uint32_t* data() const { return reinterpret_cast<std::uint32_t*>(buffer->data()); }
    std::unique_ptr<Buffer> buffer;
  };
  Words words(std::size_t count) { return Words(*device_, count); }

  static void copy_word(Stream& stream, std::uint32_t* to, const std::uint32_t* from) {
    stream.submit([&stream, to, from] { stream.copy(to, from, sizeof *to); });
  }

  std::unique_ptr<Device> device_;
};

TEST_P(DeviceContract, RunsWorkOnceAndInOrder) {
  for (const StreamKind kind : {StreamKind::compute, StreamKind::copy, StreamKind::host}) {
    std::vector<int> seen;
    const auto s = stream(kind);
    for (int i = 0; i < 1000; ++i) s->submit([&seen, i] { seen.push_back(i); });
    s->synchronize();
    ASSERT_EQ(seen.size(), 1000u);
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(seen[static_cast<std::size_t>(i)], i);
  }
}

TEST_P(DeviceContract, CopiesAndFillsBothTiersInOrder) {
  constexpr std::size_t count = 100'003;
  constexpr Bytes bytes = count * sizeof(std::uint32_t);
  Words from = words(count), to = words(count);
  for (std::size_t i = 0; i < count; ++i) from[i] = static_cast<std::uint32_t>(i * 2654435761u);
  const auto on_device = device_->allocate_device(bytes);
  const auto again = device_->allocate_device(bytes);
  for (const StreamKind kind : {StreamKind::compute, StreamKind::copy}) {
    const auto s = stream(kind);
    s->submit([&] {
      s->fill(to.data(), 0xff, bytes);
      s->fill(again->data(), 0xee, bytes);
      s->copy(on_device->data(), from.data(), bytes);
    });
    s->submit([&] { s->copy(again->data() + 4, on_device->data() + 4, bytes - 8); });
    s->submit([&] { s->copy(to.data(), again->data(), bytes); });
    s->synchronize();
    EXPECT_EQ(to[0], 0xeeeeeeeeu);
    EXPECT_EQ(to[count - 1], 0xeeeeeeeeu);
    for (std::size_t i = 1; i + 1 < count; ++i) ASSERT_EQ(to[i], from[i]) << "word " << i;
  }
}

TEST_P(DeviceContract, TakesCopiesOfNothing) {
  Words word = words(1);
  const auto s = stream(StreamKind::copy);
  word[0] = 7;
  s->submit([&] {
    s->copy(word.data(), word.data() + 1, 0);
    s->fill(word.data(), 1, 0);
  });
  s->synchronize();
  EXPECT_EQ(word[0], 7u);
}

TEST_P(DeviceContract, AllocatesExactSizesAndNothing) {
  for (const Bytes bytes : {Bytes{1}, Bytes{4097}, 3 * kMiB}) {
    EXPECT_EQ(device_->allocate_device(bytes)->bytes(), bytes);
    EXPECT_EQ(device_->allocate_host(bytes)->bytes(), bytes);
  }
  EXPECT_EQ(device_->allocate_device(0)->bytes(), 0);
  EXPECT_EQ(device_->allocate_host(0)->bytes(), 0);
  EXPECT_GT(device_->device_memory(), 0);
  EXPECT_GT(device_->host_memory(), 0);
  EXPECT_EQ(device_->kind(), GetParam());
  EXPECT_FALSE(device_->name().empty());
}

TEST_P(DeviceContract, HoldsAWaiterUntilTheEventIsReached) {
  Words word = words(3);
  word[0] = 42;
  const auto reached = event(StreamKind::host);
  const auto host = stream(StreamKind::host);
  const auto other = stream(StreamKind::copy);
  Gate gate(*host);
  host->submit([&] { word[1] = word[0]; });
  host->record(*reached);
  other->wait(*reached);
  copy_word(*other, word.data() + 2, word.data() + 1);
  let_others_run();
  gate.open();
  other->synchronize();
  EXPECT_EQ(word[2], 42u) << "the copy ran before what it waited for";
}

TEST_P(DeviceContract, HoldsBackOnlyWhatCameAfterTheWait) {
  const auto blocked = event(StreamKind::host);
  const auto before = event(StreamKind::compute);
  const auto host = stream(StreamKind::host);
  const auto other = stream(StreamKind::compute);
  Gate gate(*host);
  host->record(*blocked);
  other->submit([] {});
  other->record(*before);
  other->wait(*blocked);
  EXPECT_TRUE(returns(gate, [&] { before->synchronize(); }));
}

TEST_P(DeviceContract, TakesAnEventThatWasNeverRecordedForPast) {
  const auto host = stream(StreamKind::host);
  Gate gate(*host);  // only for returns()
  for (const StreamKind kind : {StreamKind::compute, StreamKind::copy, StreamKind::host}) {
    const auto never = event(kind);
    const auto s = stream(kind);
    EXPECT_TRUE(returns(gate, [&] { never->synchronize(); }));
    s->wait(*never);
    EXPECT_TRUE(returns(gate, [&] { s->synchronize(); }));
  }
}

TEST_P(DeviceContract, WaitsForTheLastRecordAsOfTheCall) {
  const auto moving = event(StreamKind::host);
  const auto host = stream(StreamKind::host);
  const auto other = stream(StreamKind::compute);
  host->record(*moving);
  host->synchronize();
  other->wait(*moving);  // the record above
  Gate gate(*host);
  host->record(*moving);  // later, and out of reach
  EXPECT_TRUE(returns(gate, [&] { other->synchronize(); })) << "waited for a later record";
  EXPECT_FALSE(gate.is_open);
}

TEST_P(DeviceContract, DoesNotWaitForARecordThatComesLater) {
  const auto later = event(StreamKind::host);
  const auto host = stream(StreamKind::host);
  const auto other = stream(StreamKind::compute);
  other->wait(*later);
  Gate gate(*host);
  host->record(*later);
  EXPECT_TRUE(returns(gate, [&] { other->synchronize(); }));
}

TEST_P(DeviceContract, MovesAnEventThatIsRecordedAgain) {
  Words word = words(3);
  word[0] = 5;
  const auto moving = event(StreamKind::host);
  const auto host = stream(StreamKind::host);
  const auto other = stream(StreamKind::compute);
  host->record(*moving);
  host->synchronize();
  Gate gate(*host);
  host->submit([&] { word[1] = word[0]; });
  host->record(*moving);
  other->wait(*moving);
  copy_word(*other, word.data() + 2, word.data() + 1);
  auto seen = std::async(std::launch::async, [&] {
    moving->synchronize();
    return word[1];
  });
  let_others_run();
  gate.open();
  EXPECT_EQ(seen.get(), 5u) << "synchronize() returned at the old record";
  other->synchronize();
  EXPECT_EQ(word[2], 5u) << "wait() took the old record";
}

TEST_P(DeviceContract, EventsOfDevicesStreamsHoldUpTheCpu) {
  constexpr std::size_t count = 1 << 20;
  constexpr Bytes bytes = count * sizeof(std::uint32_t);
  Words word = words(count);
  const auto memory = device_->allocate_device(bytes);
  const auto copied = event(StreamKind::copy);
  const auto copies = stream(StreamKind::copy);
  const auto host = stream(StreamKind::host);
  std::uint32_t first = 0, last = 0;
  copies->submit([&] {
    copies->fill(memory->data(), 0x11, bytes);
    copies->copy(word.data(), memory->data(), bytes);
  });
  copies->record(*copied);
  host->wait(*copied);
  host->submit([&] { first = word[0], last = word[count - 1]; });
  host->synchronize();
  EXPECT_EQ(first, 0x11111111u);
  EXPECT_EQ(last, 0x11111111u);
}

TEST_P(DeviceContract, PlaysPingPong) {
  Words word = words(2);
  const auto a_done = event(StreamKind::host);
  const auto b_done = event(StreamKind::host);
  const auto a = stream(StreamKind::host);
  const auto b = stream(StreamKind::host);
  constexpr std::uint32_t rounds = 5000;
  std::uint32_t wrong = 0;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    a->wait(*b_done);
    a->submit([&, i] {
      if (word[1] != i) ++wrong;
      word[0] = i + 1;
    });
    a->record(*a_done);
    b->wait(*a_done);
    b->submit([&, i] {
      if (word[0] != i + 1) ++wrong;
      word[1] = i + 1;
    });
    b->record(*b_done);
  }
  a->synchronize();
  b->synchronize();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(word[1], rounds);
}

TEST_P(DeviceContract, PassesAWordThroughDeviceMemoryManyTimes) {
  constexpr std::size_t rounds = 500;
  Words from = words(rounds), to = words(rounds);
  const auto memory = device_->allocate_device(sizeof(std::uint32_t));
  auto* word = reinterpret_cast<std::uint32_t*>(memory->data());
  const auto written = event(StreamKind::copy);
  const auto read = event(StreamKind::copy);
  const auto up = stream(StreamKind::copy);
  const auto down = stream(StreamKind::copy);
  for (std::size_t i = 0; i < rounds; ++i) {
    from[i] = static_cast<std::uint32_t>(i + 1);
    up->wait(*read);
    copy_word(*up, word, from.data() + i);
    up->record(*written);
    down->wait(*written);
    copy_word(*down, to.data() + i, word);
    down->record(*read);
  }
  down->synchronize();
  for (std::size_t i = 0; i < rounds; ++i) ASSERT_EQ(to[i], i + 1) << "round " << i;
}

TEST_P(DeviceContract, EndsQueuedWorkBeforeAStreamGoes) {
  for (const StreamKind kind : {StreamKind::compute, StreamKind::copy, StreamKind::host}) {
    int ran = 0;
    {
      const auto s = stream(kind);
      for (int i = 0; i < 200; ++i) s->submit([&ran] { ++ran; });
    }
    EXPECT_EQ(ran, 200);
  }
}

TEST_P(DeviceContract, SynchronizesWhenIdle) {
  const auto s = stream(StreamKind::compute);
  s->synchronize();
  s->synchronize();
}

}  // namespace ebb::device
