// A ceiling is one only if it moves all the bytes that it stands for.
#include <cstring>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/optimizer_ops.h"
#include "measure/bench/race.h"
#include "measure/bench/state_memory.h"
#include "states/rules.h"

namespace ebb::measure {
namespace {

constexpr std::uint64_t kMask = 0x0123456789abcdefu;

// Planes one behind the other, with a line before and behind all of them that nobody may touch.
struct Planes {
  explicit Planes(const std::vector<Bytes>& sizes) {
    Bytes end = kLine;
    for (const Bytes size : sizes) end += (size + kLine - 1) / kLine * kLine;
    words.resize(static_cast<std::size_t>((end + 2 * kLine) / 8));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = mix_bits(i);
    auto* at = reinterpret_cast<std::byte*>(words.data());
    at += kLine - reinterpret_cast<std::uintptr_t>(at) % kLine;
    for (const Bytes size : sizes) {
      all.push_back({.data = at, .bytes = size});
      at += (size + kLine - 1) / kLine * kLine;
    }
    all.back().written = false;
  }
  std::size_t first_word_of(const StreamedPlane& plane) const {
    return static_cast<std::size_t>(reinterpret_cast<std::uint64_t*>(plane.data) - words.data());
  }

  std::vector<std::uint64_t> words;
  std::vector<StreamedPlane> all;
};

TEST(Streaming, EveryVariantMovesEveryByte) {
  const std::vector<std::vector<Bytes>> shapes = {{1},
                                                  {64, 64},
                                                  {2 * 5, 4 * 5, 2 * 5},
                                                  {2 * 9973, 4 * 9973, 9973, 155, 2 * 9973},
                                                  {1'200'000, 2'400'000, 600'000}};
  for (const StreamVariant& variant : stream_variants()) {
    for (const std::vector<Bytes>& shape : shapes) {
      for (const int threads : {1, 3}) {
        SCOPED_TRACE(testing::Message()
                     << variant.name() << ", " << shape.size() << " planes of " << shape[0]
                     << " bytes and more, " << threads << " threads");
        ThreadPool pool(threads);
        Planes planes(shape);
        std::vector<std::uint64_t> expected = planes.words;
        std::uint64_t read = 0;
        for (const StreamedPlane& plane : planes.all) {
          const std::size_t from = planes.first_word_of(plane);
          for (std::size_t i = 0; i < static_cast<std::size_t>((plane.bytes + 63) / 64 * 8); ++i) {
            if (plane.written) expected[from + i] ^= kMask;
            if (!plane.written) read ^= expected[from + i];
          }
        }
        EXPECT_EQ(stream_pass(pool, planes.all, variant, kMask), read);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(planes.words[i], expected[i]) << "word " << i << " of " << expected.size();
        }
        stream_pass(pool, planes.all, variant, 0);
        ASSERT_EQ(planes.words, expected) << "without a mask";
      }
    }
  }
}

TEST(StateMemory, PlanesAreWhatAnUpdateMoves) {
  const std::vector<std::pair<states::StateKind, double>> kinds = {
      {{.format = kernels::StateFormat::exact}, 26},
      {{.format = kernels::StateFormat::exact, .moments = 1}, 18},
      {{.format = kernels::StateFormat::bf16}, 18},
      {{.format = kernels::StateFormat::int8}, 14 + 4.0 / 128}};
  constexpr std::int64_t count = 128 * 1001;
  device::CpuDevice device;
  ThreadPool pool(2);
  kernels::CpuOptimizerOps ops(pool);
  for (const auto& [kind, bytes_per_parameter] : kinds) {
    SCOPED_TRACE(testing::Message() << kernels::name_of(kind.format) << ", " << kind.moments);
    StateMemory memory(device, kind, count);
    memory.fill(pool);
    const states::Rule rule = kind.moments == 2 ? states::Rule(states::AdamW{}) : states::Lion{};
    std::vector<std::vector<std::byte>> before;
    for (const StreamedPlane& plane : memory.planes()) {
      before.emplace_back(plane.data, plane.data + plane.bytes);
    }
    const kernels::StepScale scale;
    ops.update(memory.span(), states::step_numbers(rule, 1e-3, 1, true, 0), &scale);
    for (std::size_t i = 0; i < before.size(); ++i) {
      const StreamedPlane plane = memory.planes()[i];
      const bool same = std::memcmp(plane.data, before[i].data(), before[i].size()) == 0;
      EXPECT_EQ(same, !plane.written) << "plane " << i;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(plane.data) % kLine, 0u) << "plane " << i;
    }
    const Race race([] {}, memory.planes());
    EXPECT_DOUBLE_EQ(race.bytes_moved() / count, bytes_per_parameter);
  }
}

TEST(Race, ComparesWithTheFastestRival) {
  ThreadPool pool(1);
  Planes planes({1 << 16, 1 << 16});
  int passes = 0;
  Race race([&] { ++passes; }, planes.all);
  const std::vector<StreamVariant> rivals = race.find_rivals(pool, 0);
  ASSERT_FALSE(rivals.empty());
  EXPECT_EQ(passes, 0);
  race.set_rivals(rivals);
  passes = 0;
  for (int round = 0; round < 3; ++round) race.round(pool);
  EXPECT_EQ(passes, static_cast<int>(3 * rivals.size()));
  EXPECT_EQ(race.passes(), 3 * rivals.size());
  // The pass does nothing, so that it is far faster than any of its rivals.
  EXPECT_GT(race.share_of_ceiling(), 1);
  std::vector<std::string> names;
  for (const StreamVariant& rival : rivals) names.push_back(rival.name());
  EXPECT_NE(std::find(names.begin(), names.end(), race.ceiling()), names.end());
}

}  // namespace
}  // namespace ebb::measure
