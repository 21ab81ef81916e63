// A long vocabulary: the embedding and the head run whole or a piece of it at a time, with weights,
// gradients and states wherever they may be, and the bits are the same.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/disk_tier.h"
#include "engine/numerics_key.h"
#include "engine/small_runs.h"
#include "files/model/source.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "plan/explain.h"
#include "scale.h"

namespace ebb::engine {
namespace {

using plan::Tier;

constexpr std::int64_t kVocabulary = 33'001;
constexpr int kSteps = 3;

const std::filesystem::path& folder() {
  static const io::TempFolder made;
  return made.path();
}

TrainingSettings long_vocabulary(bool tied) {
  TrainingSettings s = small_settings();
  s.config.hidden = 32;
  s.config.layers = 2;
  s.config.vocabulary = kVocabulary;
  s.config.intermediate = 64;
  s.config.head_dim = 8;
  s.config.tied = tied;
  s.fixed.chunk_parameters = 100'000;
  s.fixed.vocabulary_cut = 0;
  return s;
}

// Learned positions, and a norm with biases.
TrainingSettings with_positions() {
  io::PosixFileSystem files;
  TrainingSettings s = long_vocabulary(true);
  s.config =
      files::find_model(files, (source_folder() / "tests/golden/families/gpt2").string()).config;
  s.config.vocabulary = kVocabulary;
  s.shape.sequence = s.config.max_positions - 3;
  return s;
}

struct Placement {
  std::string name;
  plan::Site site = plan::Site::resident;
  double away = 0, by_cpu = 0;
  std::int64_t weights = 0, sums = 0;  // blocks that leave the device
  double disk_states = 0;
  std::int64_t disk_weights = 0, disk_sums = 0;
  std::int64_t depth = 2;
  std::int64_t chunk = 100'000;
  bool uses_disk() const { return disk_states > 0 || disk_weights > 0 || disk_sums > 0; }
};

std::vector<Placement> placements() {
  using enum plan::Site;
  return {
      {.name = "resident"},
      {.name = "stream all", .site = stream, .away = 1, .chunk = 37'000},
      {.name = "by the CPU", .site = host, .away = 1},
      {.name = "half by the CPU", .site = stream, .away = 0.9, .by_cpu = 0.5, .chunk = 4096 * 5},
      {.name = "weights streamed", .weights = 9},
      {.name = "weights of layers and the embedding streamed", .weights = 3, .depth = 4},
      {.name = "sums on the host", .sums = 9},
      {.name = "sums of the head on the host", .sums = 1},
      {.name = "nothing stays", .site = stream, .away = 1, .weights = 9, .sums = 9},
      {.name = "nothing stays, deep, huge chunks",
       .site = stream,
       .away = 1,
       .by_cpu = 0.4,
       .weights = 9,
       .sums = 9,
       .depth = 5,
       .chunk = 1 << 30},
      {.name = "nothing stays, by the CPU", .site = host, .away = 1, .weights = 9, .sums = 9},
      {.name = "weights on the disk", .weights = 9, .disk_weights = 9},
      {.name = "sums on the disk", .site = stream, .away = 1, .sums = 9, .disk_sums = 9},
      {.name = "everything on the disk",
       .site = stream,
       .away = 1,
       .by_cpu = 0.5,
       .weights = 9,
       .sums = 9,
       .disk_states = 1,
       .disk_weights = 9,
       .disk_sums = 9},
      {.name = "everything on the disk, by the CPU",
       .site = host,
       .away = 1,
       .weights = 9,
       .sums = 9,
       .disk_states = 1,
       .disk_weights = 9,
       .disk_sums = 9},
  };
}

TrainingSettings placed(TrainingSettings s, const Placement& p, bool cut, bool threads) {
  io::QueueOptions queue;
  queue.uring = !threads;
  if (p.uses_disk()) add_disk(s, {{folder(), kGiB}}, {}, std::move(queue));
  s.fixed.site = p.site;
  s.fixed.offload_fraction = p.away;
  if (p.site == plan::Site::resident) s.fixed.offload_fraction.reset();
  if (p.site == plan::Site::stream) s.fixed.host_fraction = p.by_cpu;
  s.fixed.streamed_weights = std::min<std::int64_t>(p.weights, s.config.layers + 2);
  s.fixed.host_sums = std::min<std::int64_t>(p.sums, s.config.layers + 2);
  s.fixed.chunk_parameters = p.chunk;
  s.fixed.depth = p.depth;
  if (p.uses_disk()) {
    s.fixed.disk_fraction = p.disk_states;
    s.fixed.disk_weights = p.disk_weights;
    s.fixed.disk_sums = p.disk_sums;
  }
  s.fixed.vocabulary_cut = cut ? 1 : 0;
  return s;
}

int count_of(const plan::Plan& plan, plan::Op op) {
  return static_cast<int>(std::ranges::count_if(
      plan.program.tasks, [&](const plan::Task& task) { return task.op == op; }));
}

struct Case {
  std::string name;
  int accumulate;
  DType dtype;
  TrainingSettings (*settings)();
};
void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

class VocabularyPlacement : public testing::TestWithParam<Case> {};

TEST_P(VocabularyPlacement, GivesTheSameBits) {
  TrainingSettings plain = GetParam().settings();
  plain.accumulate = GetParam().accumulate;
  plain.dtype = plain.gradient_type = GetParam().dtype;
  const Outcome expected = train_small(plain, 2, kSteps);
  std::uint64_t seed = 0;
  std::size_t number = std::hash<std::string>()(GetParam().name);  // others in every case
  for (const Placement& placement : placements()) {
    if (small_scale() && ++number % 5 != 0) continue;
    for (const bool cut : {false, true}) {
      // Every other time with lanes that are late and memory that is poisoned.
      const bool disturbed = ++seed % 2 == 0 || small_scale();
      TrainingSettings s = placed(plain, placement, cut, disturbed);
      if (disturbed) {
        s.disturbance = {.slow_lanes_seed = seed, .poison = true, .threads = seed % 4 == 0};
      }
      const std::string where =
          fmt::format("{}, {}{}", placement.name, cut ? "cut" : "whole", disturbed ? ", late" : "");
      Runtime runtime(test_device(), 1 + static_cast<int>(seed % 3));
      TrainingRun run(runtime, s);
      // A cut that silently did not happen would pass all the rest.
      const int pieces = model::vocabulary_pieces(s.config).count;
      ASSERT_GT(pieces, 4);
      ASSERT_EQ(count_of(run.plan(), plan::Op::head_gradients), cut ? pieces * s.accumulate : 0)
          << where;
      ASSERT_EQ(count_of(run.plan(), plan::Op::head), cut ? 0 : s.accumulate) << where;
      initialize(run);
      std::vector<double> losses, norms;
      for (int step = 0; step < kSteps; ++step) {
        const StepResult result = run.step(made_up_batches(s, step));
        losses.push_back(result.loss);
        norms.push_back(result.norm);
      }
      run.finish();
      EXPECT_EQ(losses, expected.losses) << where;
      EXPECT_EQ(norms, expected.norms) << where;
      EXPECT_EQ(run.store().weights_digest(), expected.weights) << where;
      EXPECT_EQ(run.store().moments_digest(), expected.moments) << where;
      for (const Tier tier : run.plan().program.topology->all_tiers()) {
        EXPECT_EQ(run.measured_peak(tier), run.plan().peak(tier)) << where << ", " << tier.index;
      }
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, VocabularyPlacement,
    testing::Values(Case{"tied_1", 1, DType::bf16, [] { return long_vocabulary(true); }},
                    Case{"tied_2", 2, DType::bf16, [] { return long_vocabulary(true); }},
                    Case{"tied_3", 3, DType::bf16, [] { return long_vocabulary(true); }},
                    Case{"untied_1", 1, DType::bf16, [] { return long_vocabulary(false); }},
                    Case{"untied_3", 3, DType::bf16, [] { return long_vocabulary(false); }},
                    Case{"tied_fp32", 2, DType::f32, [] { return long_vocabulary(true); }},
                    Case{"untied_fp32", 1, DType::f32, [] { return long_vocabulary(false); }},
                    Case{"positions", 2, DType::bf16, with_positions}),
    [](const auto& info) { return info.param.name; });

// Evaluation is the head's first pass alone; it is the loss that a step would have begun with.
TEST(VocabularyEvaluation, IsTheSameWholeAndCut) {
  for (const auto settings : {+[] { return long_vocabulary(true); },
                              +[] { return long_vocabulary(false); }, with_positions}) {
    std::vector<double> expected;
    for (const Placement& placement : placements()) {
      for (const bool cut : {false, true}) {
        const TrainingSettings s = placed(settings(), placement, cut, false);
        Runtime runtime(test_device(), 2);
        TrainingRun run(runtime, s);
        initialize(run);
        const text::Batch batch = made_up_batches(s, 1).front();
        std::vector<double> losses = {run.evaluate(batch).loss_sum};
        run.step(made_up_batches(s, 0));
        losses.push_back(run.evaluate(batch).loss_sum);
        const auto tokens = static_cast<double>(s.shape.tokens());
        losses.push_back(run.step(made_up_batches(s, 1)).loss * tokens);
        run.finish();
        EXPECT_NEAR(losses[1], losses[2], 1e-9 * losses[2]) << placement.name << cut;
        if (expected.empty()) expected = losses;
        EXPECT_EQ(losses, expected) << placement.name << (cut ? ", cut" : ", whole");
      }
      if (small_scale()) break;
    }
  }
}

// A run that was saved in one mode goes on in the other.
TEST(VocabularyResume, IsExactIntoTheOtherMode) {
  io::PosixFileSystem files;
  const Outcome expected = train_small(long_vocabulary(true), 2, 4);
  for (const bool cut_first : {false, true}) {
    const io::TempFolder root;
    Runtime runtime(test_device(), 2);
    std::filesystem::path saved;
    {
      TrainingRun run(runtime, placed(long_vocabulary(true), placements()[8], cut_first, false));
      initialize(run);
      for (int step = 0; step < 2; ++step) run.step(made_up_batches(run.settings(), step));
      run.finish();
      saved = save_checkpoint(
          files, root / "run", run.store(),
          {.config = run.settings().config, .stored_config = {}, .copies = {}},
          {.step = 2, .data_position = {}, .seed = 7, .numerics_key = {{"test", true}}}, 2);
    }
    const TrainingSettings s = placed(long_vocabulary(true), placements()[3], !cut_first, false);
    TrainingRun run(runtime, s);
    load_checkpoint(files, saved, s.format, run.store());
    run.set_steps_done(2);
    for (int step = 2; step < 4; ++step) run.step(made_up_batches(s, step));
    run.finish();
    EXPECT_EQ(run.store().weights_digest(), expected.weights) << cut_first;
    EXPECT_EQ(run.store().moments_digest(), expected.moments) << cut_first;
  }
}

// Checkpoints of versions that knew no pieces go on, though not bit-identically; those of short
// vocabularies as ever.
TEST(VocabularyResume, OfAVersionWithoutPiecesIsTold) {
  Runtime runtime("cpu", 1);
  const Json now = numerics_key(runtime, long_vocabulary(true), 0, {});
  Json before = now;
  ASSERT_EQ(before.erase("vocabulary_piece"), 1u);
  const auto differences = compare_keys(before, now);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_TRUE(differences[0].machine);
  EXPECT_FALSE(numerics_key(runtime, small_settings(), 0, {}).contains("vocabulary_piece"));
}

// The least device memory in which a plan is found, to a percent or so.
Bytes least_device(Runtime& runtime, TrainingSettings s, std::optional<std::int64_t> cut) {
  s.fixed = {};
  s.fixed.vocabulary_cut = cut;
  Bytes fits = 64 * kMiB, too_little = 0;
  while (fits - too_little > fits / (small_scale() ? 16 : 64)) {
    s.limits[Tier::device] = (fits + too_little) / 2;
    try {
      plan_training(runtime, s);
      fits = s.limits[Tier::device];
    } catch (const OutOfBudget&) {
      too_little = s.limits[Tier::device];
    }
  }
  return fits;
}

// What must be on the device at once is a few pieces, not the table.
TEST(VocabularyPlan, CutsWhatDoesNotFitWhole) {
  for (const bool tied : {false, true}) {
    if (small_scale() && !tied) continue;
    TrainingSettings s = long_vocabulary(tied);
    Runtime runtime(test_device(), 2);
    const Bytes fixed = plan_training(runtime, s).workload.scratch +
                        plan_training(runtime, s).workload.extra(Tier::device);
    const Bytes whole = least_device(runtime, s, 0) - fixed;
    const Bytes cut = least_device(runtime, s, {}) - fixed;
    EXPECT_LT(cut, whole / 3) << tied;
    const Outcome expected = train_small(s, 2, 2);
    s.fixed = {};
    s.limits[Tier::device] = fixed + cut;
    const Outcome found = train_small(s, 2, 2);
    EXPECT_EQ(found.weights, expected.weights) << tied;
    EXPECT_EQ(found.moments, expected.moments) << tied;
    EXPECT_EQ(found.measured_device, found.predicted_device) << tied;
    EXPECT_LE(found.measured_device, s.limits[Tier::device]) << tied;
    EXPECT_EQ(plan_training(runtime, s).choices.vocabulary_cut, 1) << tied;
    s.limits[Tier::device] = fixed + whole;
    EXPECT_EQ(plan_training(runtime, s).choices.vocabulary_cut, 0) << tied;
  }
}

}  // namespace
}  // namespace ebb::engine
