// Every rule and every format of the states: placement does not change the numbers, resume is
// exact, and checkpoints convert from one format to another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/small_runs.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "print.h"
#include "scale.h"
#include "states/format.h"

namespace ebb::engine {
namespace {

using states::StateFormat;
using testing::HasSubstr;

struct Kind {
  std::string name;
  states::Rule rule;
  StateFormat format = StateFormat::exact;
  double rate = 3e-3;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> kinds() {
  return {{"adamw_bf16", states::AdamW{}, StateFormat::bf16},
          {"adamw_int8", states::AdamW{}, StateFormat::int8},
          {"adam", states::Adam{.weight_decay = 0.01}},
          {"lion", states::Lion{}, StateFormat::exact, 3e-4},
          {"sgd", states::Sgd{.weight_decay = 0.001}, StateFormat::exact, 0.05},
          {"nesterov", states::Sgd{.nesterov = true}, StateFormat::exact, 0.05},
          {"adagrad", states::Adagrad{}, StateFormat::exact, 0.01}};
}

TrainingSettings settings_of(const Kind& kind) {
  TrainingSettings s = small_settings();
  s.rule = kind.rule;
  s.format = kind.format;
  s.schedule.peak = kind.rate;
  s.seed = 5;
  return s;
}

plan::FixedChoices fixed(plan::Site site, double fraction, std::optional<double> host,
                         std::int64_t chunk) {
  return {.site = site,
          .offload_fraction = fraction,
          .host_fraction = host,
          .recompute_blocks = 0,
          .host_inputs = 0,
          .chunk_parameters = chunk};
}

std::vector<plan::FixedChoices> placements() {
  using enum plan::Site;
  return {fixed(stream, 1, {}, 8192), fixed(host, 1, {}, 8192), fixed(stream, 0.8, 0.4, 4096),
          fixed(host, 0.5, {}, 1 << 20)};
}

std::string name_of_param(const testing::TestParamInfo<Kind>& info) { return info.param.name; }

class StateFormats : public testing::TestWithParam<Kind> {};

TEST_P(StateFormats, EveryPlacementGivesTheSameBits) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    for (const int accumulate : {1, 3}) {
      if (small_scale() && accumulate == 1) continue;
      TrainingSettings settings = settings_of(GetParam());
      settings.dtype = settings.gradient_type = dtype;
      settings.accumulate = accumulate;
      const Outcome expected = train_small(settings);
      EXPECT_LT(expected.losses.back(), expected.losses.front());
      int threads = 1;
      for (const plan::FixedChoices& wish : placements()) {
        settings.fixed = wish;
        const Outcome found = train_small(settings, threads++);
        const std::string text = fmt::format("{}, placement {}", name_of(dtype), threads - 1);
        EXPECT_EQ(found.weights, expected.weights) << text;
        EXPECT_EQ(found.moments, expected.moments) << text;
        EXPECT_EQ(found.losses, expected.losses) << text;
        EXPECT_EQ(found.predicted_device, found.measured_device) << text;
        EXPECT_EQ(found.predicted_host, found.measured_host) << text;
      }
    }
  }
}

// All states cross the link, both ways, once a step, in the bytes of their own format.
TEST_P(StateFormats, OnlyItsOwnBytesMove) {
  TrainingSettings settings = settings_of(GetParam());
  settings.fixed = fixed(plan::Site::stream, 1, {}, 8192);
  Runtime runtime(test_device(), 1);
  const plan::Plan plan = plan_training(runtime, settings);
  Bytes states = 0;
  for (const plan::Chunk& chunk : plan.program.chunks) {
    states += states::state_bytes(settings.state_kind(), chunk.count);
  }
  const double per_parameter =
      static_cast<double>(states) / static_cast<double>(plan.workload.parameters());
  EXPECT_NEAR(per_parameter, states::state_bytes_per_parameter(settings.state_kind()), 0.05);
  const Outcome moved = train_small(settings, 2, 3);
  settings.fixed = fixed(plan::Site::resident, 0, {}, 8192);
  const Outcome resident = train_small(settings, 2, 3);
  EXPECT_EQ(moved.up - resident.up, 3 * states);
  EXPECT_EQ(moved.down - resident.down, 3 * states);
}

TEST_P(StateFormats, ResumeIsExactInEveryOtherPlacement) {
  Runtime runtime(test_device(), 2);
  io::TempFolder folder;
  io::PosixFileSystem files;
  TrainingSettings settings = settings_of(GetParam());
  const auto train_to = [](TrainingRun& run, std::int64_t step) {
    while (run.steps_done() < step) run.step(made_up_batches(run.settings(), run.steps_done()));
    run.finish();
  };
  settings.fixed = placements()[2];
  TrainingRun unbroken(runtime, settings);
  initialize(unbroken);
  train_to(unbroken, 4);
  const auto saved =
      save_checkpoint(files, folder / "run", unbroken.store(),
                      {.config = settings.config, .stored_config = {}, .copies = {}},
                      {.step = 4, .data_position = {}, .numerics_key = Json::object()}, 1);
  train_to(unbroken, 8);
  const std::string weights = unbroken.store().weights_digest();
  const std::string moments = unbroken.store().moments_digest();
  for (const plan::FixedChoices& wish : placements()) {
    settings.fixed = wish;
    TrainingRun resumed(runtime, settings);
    load_checkpoint(files, saved, settings.format, resumed.store());
    resumed.set_steps_done(4);
    train_to(resumed, 8);
    EXPECT_EQ(resumed.store().weights_digest(), weights);
    EXPECT_EQ(resumed.store().moments_digest(), moments);
  }
}

INSTANTIATE_TEST_SUITE_P(All, StateFormats, testing::ValuesIn(kinds()), name_of_param);

// A run of four steps in one format, saved, and what others make of it.
class Conversion : public testing::TestWithParam<StateFormat> {
 protected:
  Conversion() : settings(settings_in(GetParam())), run(runtime, settings) {
    initialize(run);
    for (int step = 0; step < 4; ++step) run.step(made_up_batches(settings, step));
    run.finish();
    saved = save(run, "run");
  }

  static TrainingSettings settings_in(StateFormat format, double offload = 0.5) {
    TrainingSettings s = settings_of({"", states::AdamW{}, format});
    s.fixed = fixed(plan::Site::stream, offload, 0.2, 8192);
    return s;
  }
  std::filesystem::path save(TrainingRun& from, const char* name) {
    return save_checkpoint(files, folder / name, from.store(),
                           {.config = settings.config, .stored_config = {}, .copies = {}},
                           {.step = 4, .data_position = {}, .numerics_key = Json::object()}, 1);
  }
  std::vector<float> moments(TrainingRun& of, Plane plane) {
    std::vector<float> all;
    const auto& parameters = of.store().parameters().all;
    for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
      std::vector<float> values(
          static_cast<std::size_t>(parameters[static_cast<std::size_t>(p)].count()));
      of.store().read_moment(plane, p, 0, values);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  io::TempFolder folder;
  io::PosixFileSystem files;
  Runtime runtime{test_device(), 2};
  TrainingSettings settings;
  TrainingRun run;
  std::filesystem::path saved;
};

TEST_P(Conversion, WeightsStayAndMomentsAreTheNearest) {
  const auto first = moments(run, Plane::first);
  const auto second = moments(run, Plane::second);
  for (const StateFormat to : {StateFormat::exact, StateFormat::bf16, StateFormat::int8}) {
    SCOPED_TRACE(kernels::name_of(to));
    TrainingRun other(runtime, settings_in(to, 1.0));
    load_checkpoint(files, saved, GetParam(), other.store());
    EXPECT_EQ(other.store().weights_digest(), run.store().weights_digest());
    // What fits is kept: any format in exact, and every format in itself.
    if (to == StateFormat::exact || to == GetParam()) {
      EXPECT_EQ(other.store().moments_digest(), run.store().moments_digest());
    }
    const auto found_first = moments(other, Plane::first);
    const auto found_second = moments(other, Plane::second);
    const double step = to == StateFormat::bf16 ? 1.0 / 256 : to == StateFormat::int8 ? 0.0625 : 0;
    double second_sum = 0, found_sum = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const double small = to == StateFormat::int8 ? 1e-3 : 0;  // steps near zero are even
      ASSERT_NEAR(found_first[i], first[i], step * std::abs(first[i]) + small) << i;
      second_sum += second[i];
      found_sum += found_second[i];
    }
    EXPECT_NEAR(found_sum, second_sum, (to == StateFormat::exact ? 0.0 : 0.03) * second_sum);
    // There and back again.
    const auto again = save(other, "again");
    TrainingRun third(runtime, settings_in(to));
    load_checkpoint(files, again, to, third.store());
    EXPECT_EQ(third.store().moments_digest(), other.store().moments_digest());
    other.set_steps_done(4);
    EXPECT_TRUE(std::isfinite(other.step(made_up_batches(settings, 4)).loss));
    other.finish();
  }
}

TEST_P(Conversion, AFileOfAnotherFormatThanToldIsRefused) {
  const StateFormat other =
      GetParam() == StateFormat::exact ? StateFormat::bf16 : StateFormat::exact;
  try {
    load_checkpoint(files, saved, other, run.store());
    FAIL() << "no error";
  } catch (const FormatError& error) {
    EXPECT_THAT(error.what(), HasSubstr("state.safetensors"));
    EXPECT_THAT(error.what(), HasSubstr(".first"));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Conversion,
                         testing::Values(StateFormat::exact, StateFormat::bf16, StateFormat::int8),
                         [](const auto& info) {
                           return std::string(kernels::name_of(info.param));
                         });

TEST(StateFormatSettings, CompactMomentsAreNotThoseOfExact) {
  const Outcome exact = train_small(settings_of({"", states::AdamW{}}), 2, 3);
  for (const StateFormat format : {StateFormat::bf16, StateFormat::int8}) {
    const Outcome compact = train_small(settings_of({"", states::AdamW{}, format}), 2, 3);
    EXPECT_NE(compact.moments, exact.moments);
    EXPECT_LT(compact.predicted_device, exact.predicted_device);
  }
}

// Rounding is keyed by the seed.
TEST(StateFormatSettings, AnotherSeedRoundsOtherwise) {
  TrainingSettings settings = settings_of({"", states::AdamW{}, StateFormat::int8});
  const Outcome one = train_small(settings, 2, 3);
  settings.seed += 1;
  EXPECT_NE(train_small(settings, 2, 3).moments, one.moments);
}

}  // namespace
}  // namespace ebb::engine
