// A model evaluated on its own: the bits of training's validation wherever its weights live, and
// never a byte more than was planned.
#include "engine/evaluation_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/evaluation_plan.h"
#include "engine/small_runs.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"

namespace ebb::engine {
namespace {

using plan::Tier;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kBatches = 5;
constexpr std::uint64_t kSeed = 7;

TrainingSettings settings_of(DType dtype, bool tied) {
  TrainingSettings s = small_settings();
  s.dtype = s.gradient_type = dtype;
  s.config.tied = tied;
  s.seed = kSeed;
  return s;
}

// Vocabularies of 32,768 tokens and more can be cut.
TrainingSettings long_vocabulary(bool tied) {
  TrainingSettings s = settings_of(DType::bf16, tied);
  s.config.hidden = 32;
  s.config.layers = 2;
  s.config.vocabulary = 33'001;
  s.config.intermediate = 64;
  s.config.head_dim = 8;
  s.fixed.chunk_parameters = 100'000;
  return s;
}

text::Batch batch_of(const TrainingSettings& s, int number) {
  text::Batch batch = made_up_batches(s, number).front();
  // The last one is not full.
  if (number != kBatches - 1) return batch;
  for (std::size_t i = 17; i < batch.targets.size(); ++i) batch.targets[i] = -1;
  return batch;
}

// Added up as training adds up what it validates on.
Evaluation by_training(TrainingSettings s) {
  Runtime runtime(test_device(), 2);
  TrainingRun run(runtime, s);
  files::initialize_weights(runtime.pool(), s.config, run.store().parameters(), kSeed,
                            [&](int parameter, std::int64_t first, std::span<const float> values) {
                              run.store().write_master(parameter, first, values);
                            });
  Evaluation all;
  for (int b = 0; b < kBatches; ++b) {
    const Evaluation one = run.evaluate(batch_of(s, b));
    all.loss_sum += one.loss_sum;
    all.loss_tokens += one.loss_tokens;
  }
  return all;
}

struct Alone {
  Evaluation result;
  plan::Choices choices;
};

Alone alone(const TrainingSettings& s, int threads, const std::string& what) {
  Runtime runtime(test_device(), threads);
  io::PosixFileSystem files;
  EvaluationRun run(runtime, s, plan_evaluation(runtime, s));
  run.load(files, {.name = "made up", .config = s.config, .folder = {}, .stored_config = {}});
  for (int b = 0; b < kBatches; ++b) {
    run.add(batch_of(s, b));
    EXPECT_LE(run.batches_done(), b) << what;
    EXPECT_GE(run.batches_done(), b - 1) << what;
  }
  run.finish();
  EXPECT_EQ(run.batches_done(), kBatches) << what;
  for (const Tier tier : s.topology->all_tiers()) {
    EXPECT_EQ(run.plan().peak(tier), run.measured_peak(tier))
        << what << ", " << (*s.topology)[tier].name;
    EXPECT_LE(run.measured_peak(tier), s.limits[tier]) << what;
  }
  return {run.total(), run.plan().choices};
}

struct Placement {
  std::int64_t streamed = 0, on_disk = 0, depth = 2, cut = 0;
};

void expect_same_bits(const TrainingSettings& plain, const std::vector<Placement>& placements) {
  const Evaluation expected = by_training(plain);
  const io::TempFolder folder;
  int number = 0;
  for (const Placement& placement : placements) {
    TrainingSettings s = plain;
    if (placement.on_disk > 0) add_disk(s, {{folder.path(), kGiB}});
    s.fixed.streamed_weights = placement.streamed;
    s.fixed.disk_weights = placement.on_disk;
    s.fixed.depth = placement.depth;
    s.fixed.vocabulary_cut = placement.cut;
    // Now and then lanes are late, and memory that is nobody's is poisoned.
    if (++number % 2 == 0) s.disturbance = {.slow_lanes_seed = 3, .poison = true};
    const std::string what =
        fmt::format("{} streamed, {} on disk, depth {}, cut {}", placement.streamed,
                    placement.on_disk, placement.depth, placement.cut);
    const Alone found = alone(s, 1 + number % 3, what);
    EXPECT_EQ(found.result.loss_sum, expected.loss_sum) << what;
    EXPECT_EQ(found.result.loss_tokens, expected.loss_tokens) << what;
    EXPECT_EQ(found.choices.streamed_weights, placement.streamed) << what;
    EXPECT_EQ(found.choices.disk_weights, placement.on_disk) << what;
    EXPECT_EQ(found.choices.vocabulary_cut, placement.cut) << what;
  }
}

TEST(EvaluationRunTest, HasTheBitsOfTrainingWhereverWeightsLive) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const bool tied : {true, false}) {
      SCOPED_TRACE(fmt::format("{}, tied {}", name_of(dtype), tied));
      expect_same_bits(settings_of(dtype, tied), {{},
                                                  {.streamed = 2},
                                                  {.streamed = 5},
                                                  {.streamed = 5, .depth = 4},
                                                  {.streamed = 3, .on_disk = 1},
                                                  {.streamed = 5, .on_disk = 5}});
    }
  }
}

TEST(EvaluationRunTest, HasTheBitsOfTrainingWithTheVocabularyInPieces) {
  for (const bool tied : {true, false}) {
    SCOPED_TRACE(fmt::format("tied {}", tied));
    expect_same_bits(long_vocabulary(tied), {{.cut = 1},
                                             {.streamed = 4, .cut = 1},
                                             {.streamed = 4, .on_disk = 4, .depth = 3, .cut = 1}});
  }
}

// From all that it could want down to the least with which there is a plan, and no byte below.
TEST(EvaluationRunTest, FitsWhereThePlanSaysSo) {
  TrainingSettings s = long_vocabulary(true);
  s.fixed = {};
  const Evaluation expected = by_training(long_vocabulary(true));
  Runtime runtime(test_device(), 2);
  // What is said where it is refused.
  const auto refusal = [&](Bytes device) -> std::string {
    s.limits[Tier::device] = device;
    try {
      plan_evaluation(runtime, s);
    } catch (const OutOfBudget& error) {
      EXPECT_EQ(error.shortfalls().size(), 1u);
      EXPECT_EQ(error.shortfalls().front().limit, device);
      return error.what();
    }
    return {};
  };
  Bytes fits = plan_evaluation(runtime, s).peak(Tier::device), refused = 0;
  const Bytes step = fits / 9;
  bool cut = false;
  for (Bytes device = fits; refused == 0; device -= step) {
    if (!refusal(device).empty()) {
      refused = device;
      break;
    }
    fits = device;
    const Alone found = alone(s, 2, fmt::format("device {}", device));
    EXPECT_EQ(found.result.loss_sum, expected.loss_sum) << device;
    cut = cut || found.choices.vocabulary_cut == 1;
  }
  EXPECT_TRUE(cut) << "the table was never larger than the device";
  while (fits - refused > 1) {
    const Bytes middle = refused + (fits - refused) / 2;
    (refusal(middle).empty() ? fits : refused) = middle;
  }
  EXPECT_EQ(refusal(fits), "");
  EXPECT_EQ(alone(s, 2, "the least").result.loss_sum, expected.loss_sum);
  EXPECT_THAT(refusal(refused),
              AllOf(HasSubstr("Missing on the device: 1 B (1 bytes)"), HasSubstr("weights"),
                    HasSubstr(fmt::format("--device-memory {} would do", fits)),
                    HasSubstr("Closest plan: --weights"), HasSubstr("What would help"),
                    HasSubstr("--micro-batch 1\n"), HasSubstr("a higher limit")));
}

TEST(EvaluationRunTest, AnotherPlacementIsAdvisedWhereItHelps) {
  TrainingSettings s = long_vocabulary(false);
  s.fixed = {.streamed_weights = 0, .vocabulary_cut = 0};
  Runtime runtime(test_device(), 2);
  s.limits[Tier::device] = plan_evaluation(runtime, s).peak(Tier::device) - 1;
  try {
    plan_evaluation(runtime, s);
    FAIL();
  } catch (const OutOfBudget& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("--weights auto"), HasSubstr("fits with --weights")));
  }
}

TEST(EvaluationRunTest, ALossThatIsNotFiniteIsAnError) {
  TrainingSettings s = settings_of(DType::f32, false);
  s.config.norm_epsilon = -1e9;  // the root of what is negative
  Runtime runtime(test_device(), 1);
  io::PosixFileSystem files;
  EvaluationRun run(runtime, s, plan_evaluation(runtime, s));
  run.load(files, {.name = "made up", .config = s.config, .folder = {}, .stored_config = {}});
  run.add(batch_of(s, 0));
  try {
    run.finish();
    FAIL();
  } catch (const NumericsError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("batch 1"), HasSubstr("not finite")));
  }
}

}  // namespace
}  // namespace ebb::engine
