// What a device promises of the times that its streams tell.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "device/device.h"

namespace ebb::device {

// Clocks of streams agree to some tens of microseconds.
constexpr std::chrono::microseconds kClocksAgree{100};

inline void expect_times_in_order(Device& device) {
  for (const StreamKind kind : {StreamKind::compute, StreamKind::copy, StreamKind::host}) {
    const auto before = std::chrono::steady_clock::now();
    std::vector<Interval> ran(100);
    const auto stream = device.create_stream(kind, "test");
    for (Interval& one : ran) stream->submit([] {}, &one);
    stream->submit([] {});
    stream->synchronize();
    const auto after = std::chrono::steady_clock::now();
    EXPECT_GE(ran.front().start, before - kClocksAgree);
    EXPECT_LE(ran.back().stop, after + kClocksAgree);
    for (std::size_t i = 0; i < ran.size(); ++i) {
      ASSERT_GE(ran[i].stop, ran[i].start) << i;
      if (i > 0) {
        ASSERT_GE(ran[i].start, ran[i - 1].stop) << i;
      }
    }
  }
}

// Streams in a row, each after what the one before did, with a pause that is longer than a device
// may time from one base.
inline void expect_one_clock(Device& device) {
  constexpr std::chrono::microseconds pause{1'500'000};
  const auto copied = device.create_event(StreamKind::copy);
  const auto computed = device.create_event(StreamKind::compute);
  const auto worked = device.create_event(StreamKind::host);
  const auto copies = device.create_stream(StreamKind::copy, "copies");
  const auto computes = device.create_stream(StreamKind::compute, "computes");
  const auto host = device.create_stream(StreamKind::host, "host");
  Interval first, second, third, fourth, fifth;
  copies->submit([&] { copies->pause(2000); }, &first);
  copies->record(*copied);
  computes->wait(*copied);
  computes->submit([&] { computes->pause(pause.count()); }, &second);
  computes->record(*computed);
  host->wait(*computed);
  host->submit([] {}, &third);
  host->record(*worked);
  copies->wait(*worked);
  copies->submit([] {}, &fourth);
  for (Stream* stream : {copies.get(), computes.get(), host.get()}) stream->synchronize();
  copies->submit([] {}, &fifth);
  copies->synchronize();
  // Pauses of a GPU are rough.
  EXPECT_GE(first.stop - first.start, std::chrono::microseconds(2000) / 4);
  EXPECT_GE(second.stop - second.start, pause / 4);
  EXPECT_GE(second.start, first.stop - kClocksAgree);
  EXPECT_GE(third.start, second.stop - kClocksAgree);
  EXPECT_GE(fourth.start, third.stop - kClocksAgree);
  EXPECT_GE(fifth.start, fourth.stop);
  EXPECT_LE(fifth.stop, std::chrono::steady_clock::now() + kClocksAgree);
}

}  // namespace ebb::device
