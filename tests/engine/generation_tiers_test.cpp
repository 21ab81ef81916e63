// The promise: in generation the home of a weight or of the cache changes no bit as long as the
// same processor computes with it. On the cpu device both processors are one, so every placement
// must give the same logits, with any timing of lanes; and on every tier no byte more is used than
// was predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/generation_placements.h"
#include "engine/generator.h"
#include "engine/small_runs.h"
#include "files/safetensors.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "scale.h"

namespace ebb::engine {
namespace {

using plan::Tier;

class GenerationTiers : public testing::TestWithParam<const char*> {
 protected:
  static constexpr std::int64_t kPrompt = 11, kLength = 15;

  files::ModelSource source() {
    return files::find_model(files_, golden_folder(GetParam()).string());
  }
  GeneratorSettings settings(const TestPlacement& placement, DType dtype, std::int64_t slice = 4) {
    GeneratorSettings s{.config = source().config,
                        .dtype = dtype,
                        .positions = kLength,
                        .prompt_tokens = kPrompt,
                        .limits = {{Tier::device, kGiB}, {Tier::host, kGiB}}};
    s.fixed = placement.fixed;
    s.fixed.slice = slice;
    if (placement.disk) add_disk(s, {{folder_.path(), 256 * kMiB}});
    return s;
  }
  std::vector<std::int32_t> ids() {
    const auto path = golden_folder(GetParam()) / "tokens.safetensors";
    const files::SafetensorsReader reader(files_, path);
    const files::StoredTensor* tensor = reader.find("ids");
    std::vector<std::int32_t> values(static_cast<std::size_t>(tensor->bytes) / 4);
    reader.read(*tensor, 0, std::as_writable_bytes(std::span(values)));
    values.resize(kLength);
    return values;
  }
  // Logits behind the prompt and behind every token, of two texts.
  std::vector<float> logits(Generator& generator) {
    std::vector<float> all;
    const std::vector<std::int32_t> tokens = ids();
    for (const std::int64_t prompt : {kPrompt, std::int64_t{5}}) {
      generator.reset();
      for (std::int64_t at = 0; at < kLength;) {
        const std::int64_t count = at == 0 ? prompt : 1;
        const auto found = generator.advance(std::span(tokens).subspan(
            static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
        all.insert(all.end(), found.begin(), found.end());
        at += count;
      }
    }
    return all;
  }

  io::PosixFileSystem files_;
  io::TempFolder folder_;
  Runtime runtime_{test_device(), 2};
};

TEST_P(GenerationTiers, NoPlacementChangesABit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<float> expected;
    std::uint64_t seed = 0;
    for (const TestPlacement& placement : test_placements()) {
      const std::string where = fmt::format("{}, {}", name_of(dtype), placement.name);
      GeneratorSettings s = settings(placement, dtype);
      Generator generator(runtime_, files_, source(), s);
      const std::vector<float> found = logits(generator);
      if (expected.empty()) expected = found;
      ASSERT_EQ(found, expected) << where;
      for (const Tier tier : s.topology->all_tiers()) {
        EXPECT_EQ(generator.measured_peak(tier), generator.plan().peak(tier))
            << where << ", tier " << int{tier.index};
        EXPECT_LE(generator.ledger(tier).peak(), generator.plan().peak(tier)) << where;
      }
      // What was to be forced was.
      EXPECT_EQ(generator.plan().choices.disk_weights > 0, placement.disk) << where;
      // Again with lanes that are late and memory that is poisoned.
      s.disturbance = {.slow_lanes_seed = ++seed, .poison = true, .threads = seed % 2 == 0};
      Generator disturbed(runtime_, files_, source(), s);
      ASSERT_EQ(logits(disturbed), expected) << where << ", disturbed";
    }
  }
}

// With the least memory, and a little more, and so on: what fits gives the same bits.
TEST_P(GenerationTiers, NoLimitChangesABit) {
  const TestPlacement free{"free", {}};
  Generator roomy(runtime_, files_, source(), settings(free, DType::f32));
  const std::vector<float> expected = logits(roomy);
  const Bytes most = roomy.plan().peak(Tier::device);
  const Bytes libraries = roomy.plan().slice.workload.extra(Tier::device);
  int fitting = 0, streaming = 0;
  for (int share = 0; share <= 10; share += small_scale() ? 5 : 1) {
    GeneratorSettings s = settings(free, DType::f32);
    s.limits[Tier::device] = libraries + (most - libraries) * share / 10;
    try {
      Generator generator(runtime_, files_, source(), s);
      ASSERT_EQ(logits(generator), expected) << share;
      EXPECT_LE(generator.measured_peak(), s.limits[Tier::device]);
      ++fitting;
      streaming += generator.plan().choices.streamed_weights > 0 ? 1 : 0;
    } catch (const OutOfBudget& refusal) {
      EXPECT_NE(std::string(refusal.what()).find("Missing on the device"), std::string::npos);
    }
  }
  EXPECT_GT(fitting, 1);
  EXPECT_GT(streaming, 0);
}

// Each product of few rows is computed as it would be alone: slices of other lengths may round
// otherwise, and not by more.
TEST_P(GenerationTiers, SlicesOfAnyLengthAgree) {
  const TestPlacement streamed = test_placements()[2];
  std::vector<float> expected;
  for (const std::int64_t slice : {1, 3, 4, 11}) {
    Generator generator(runtime_, files_, source(), settings(streamed, DType::f32, slice));
    const std::vector<float> found = logits(generator);
    if (expected.empty()) expected = found;
    float scale = 0, difference = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      scale = std::max(scale, std::abs(expected[i]));
      difference = std::max(difference, std::abs(found[i] - expected[i]));
    }
    RecordProperty(fmt::format("slice_{}", slice), fmt::format("{}", difference / scale));
    EXPECT_LT(difference, 1e-4f * scale) << slice;
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GenerationTiers,
                         testing::Values("training/llama", "families/gpt2", "families/gemma",
                                         "families/qwen3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace ebb::engine
