// Placement never changes the numbers of any family: what a block keeps and computes again differs
// between them. The golden models, trained in the most spread-out way and in the plainest.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/small_runs.h"
#include "files/model/source.h"
#include "io/posix_file_system.h"

namespace ebb::engine {
namespace {

class FamilyPlacementTest : public testing::TestWithParam<std::string> {};

TEST_P(FamilyPlacementTest, GivesTheSameBitsAsResident) {
  io::PosixFileSystem files;
  const auto folder = source_folder() / "tests/golden/families" / GetParam();
  for (const auto& [dtype, tile] : {std::pair{DType::bf16, model::Shape{}.largest_tile},
                                    {DType::f32, model::Shape{}.largest_tile},
                                    {DType::bf16, std::int64_t{11}},
                                    {DType::f32, std::int64_t{7}}}) {
    SCOPED_TRACE(fmt::format("tiles of at most {}", tile));
    TrainingSettings settings = small_settings();
    settings.shape.largest_tile = tile;
    settings.config = files::find_model(files, folder.string()).config;
    settings.dtype = settings.gradient_type = dtype;
    settings.accumulate = 2;
    settings.fixed.chunk_parameters = 1024;
    const Outcome expected = train_small(settings, 1, 6);
    settings.fixed.cheap_saved_blocks = settings.config.layers;
    const Outcome kept = train_small(settings, 2, 6);
    EXPECT_EQ(kept.weights, expected.weights) << name_of(dtype);
    EXPECT_EQ(kept.moments, expected.moments) << name_of(dtype);
    EXPECT_EQ(kept.predicted_device, kept.measured_device) << name_of(dtype);
    settings.fixed.cheap_saved_blocks = 1;
    settings.fixed.site = plan::Site::stream;
    settings.fixed.offload_fraction = 0.9;
    settings.fixed.host_fraction = 0.4;
    settings.fixed.recompute_blocks = 1;
    settings.fixed.host_inputs = 2;
    const Outcome found = train_small(settings, 3, 6);
    EXPECT_EQ(found.weights, expected.weights) << name_of(dtype);
    EXPECT_EQ(found.moments, expected.moments) << name_of(dtype);
    EXPECT_EQ(found.losses, expected.losses) << name_of(dtype);
    EXPECT_EQ(found.predicted_device, found.measured_device) << name_of(dtype);
    EXPECT_EQ(found.predicted_host, found.measured_host) << name_of(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, FamilyPlacementTest,
                         testing::Values("llama_scaled", "llama_biases", "mistral", "qwen2",
                                         "qwen3", "gpt2", "gemma"),
                         [](const auto& info) { return info.param; });

// A table of learned positions has an end.
TEST(Gpt2, RefusesSequencesThatItHasNoPositionsFor) {
  io::PosixFileSystem files;
  TrainingSettings settings = small_settings();
  settings.config =
      files::find_model(files, (source_folder() / "tests/golden/families/gpt2").string()).config;
  settings.shape.sequence = settings.config.max_positions;
  Runtime runtime(test_device(), 1);
  EXPECT_NO_THROW(plan_training(runtime, settings));
  settings.shape.sequence += 1;
  try {
    plan_training(runtime, settings);
    FAIL() << "accepted a sequence of " << settings.shape.sequence;
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("24 positions"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace ebb::engine
