// Placement never changes the numbers of any family: what a block keeps and computes again differs
// between them. The golden models, trained in the most spread-out way and in the plainest.
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "engine/model_source.h"
#include "engine/small_runs.h"
#include "io/posix_file_system.h"

namespace ebb::engine {
namespace {

class FamilyPlacementTest : public testing::TestWithParam<std::string> {};

TEST_P(FamilyPlacementTest, GivesTheSameBitsAsResident) {
  io::PosixFileSystem files;
  const auto folder = source_folder() / "tests/golden/families" / GetParam();
  for (const DType dtype : {DType::bf16, DType::f32}) {
    TrainingSettings settings = small_settings();
    settings.config = find_model(files, folder.string()).config;
    settings.dtype = settings.gradient_type = dtype;
    settings.accumulate = 2;
    settings.wishes.chunk_parameters = 1024;
    const Outcome expected = train_small(settings, 1, 6);
    settings.wishes.kept_blocks = settings.config.layers;
    const Outcome kept = train_small(settings, 2, 6);
    EXPECT_EQ(kept.weights, expected.weights) << name_of(dtype);
    EXPECT_EQ(kept.moments, expected.moments) << name_of(dtype);
    EXPECT_EQ(kept.predicted_device, kept.measured_device) << name_of(dtype);
    settings.wishes.kept_blocks = 1;
    settings.wishes.site = plan::Site::stream;
    settings.wishes.offload_fraction = 0.9;
    settings.wishes.host_fraction = 0.4;
    settings.wishes.recompute_blocks = 1;
    settings.wishes.host_inputs = 2;
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
      find_model(files, (source_folder() / "tests/golden/families/gpt2").string()).config;
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
