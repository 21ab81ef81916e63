// What a run starts from, and what that is counted as.
#include <gtest/gtest.h>

#include "engine/small_runs.h"
#include "files/model/source.h"
#include "plan/utilization.h"

namespace ebb::engine {
namespace {

// More than one piece, and a rest.
model::Config config_of_pieces() {
  model::Config config = small_config();
  config.vocabulary = 2 * ParameterStore::kPiece / config.hidden + 100;
  return config;
}

// Promise: a value depends on its parameter's name and index alone, whoever makes it.
TEST(InitializeWeights, GivesEveryValueOnceInOrderWhateverThePool) {
  const model::Config config = config_of_pieces();
  const model::Parameters parameters = model::parameters_of(config);
  const model::Initializer initializer(config, 5);
  std::vector<std::vector<float>> expected;
  for (const model::Parameter& parameter : parameters.all) {
    expected.emplace_back(static_cast<std::size_t>(parameter.count()));
    initializer.fill(parameter, 0, parameter.count(), expected.back().data());
  }
  ASSERT_GT(parameters.all.front().count(), 2 * ParameterStore::kPiece);
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::vector<std::vector<float>> found(expected.size());
    files::initialize_weights(
        pool, config, parameters, 5, [&](int p, std::int64_t first, std::span<const float> values) {
          auto& to = found[static_cast<std::size_t>(p)];
          EXPECT_EQ(first, static_cast<std::int64_t>(to.size())) << "parameter " << p;
          to.insert(to.end(), values.begin(), values.end());
        });
    EXPECT_EQ(found, expected) << threads << " threads";
  }
}

TEST(InitializeWeights, PassesOnWhatTheSinkThrows) {
  ThreadPool pool(2);
  const model::Config config = config_of_pieces();
  const auto sink = [](int, std::int64_t, std::span<const float>) {
    throw std::runtime_error("full");
  };
  EXPECT_THROW(files::initialize_weights(pool, config, model::parameters_of(config), 5, sink),
               std::runtime_error);
}

TEST(ClearMoments, LeavesNoneInAnyFormatAndSite) {
  Runtime runtime(test_device(), 2);
  for (const auto format :
       {states::StateFormat::exact, states::StateFormat::bf16, states::StateFormat::int8}) {
    for (const plan::Site site : {plan::Site::resident, plan::Site::stream, plan::Site::host}) {
      TrainingSettings settings = small_settings();
      settings.format = format;
      settings.fixed.site = site;
      TrainingRun run(runtime, settings);
      initialize(run);
      const std::string fresh = run.store().moments_digest();
      run.step(made_up_batches(settings, 0));
      run.finish();
      ASSERT_NE(run.store().moments_digest(), fresh);
      run.store().clear_moments();
      EXPECT_EQ(run.store().moments_digest(), fresh) << name_of(format) << ", " << name_of(site);
      std::vector<float> values(128);
      run.store().read_moment(Plane::second, 0, 0, values);
      EXPECT_EQ(values, std::vector<float>(128, 0.0f));
    }
  }
}

// By hand: a product of n weights is 2n operations a token forward and 4n backward; attention as
// its op counts it.
TEST(ModelFlops, AreThoseOfTheFormula) {
  Runtime runtime("cpu", 1);
  TrainingSettings s = small_settings();
  s.accumulate = 3;
  const model::Config& c = s.config;
  const double tokens = static_cast<double>(s.shape.tokens());
  const auto weights = static_cast<double>(
      c.layers * (c.hidden * (c.heads + 2 * c.kv_heads) * c.head_dim +
                  c.heads * c.head_dim * c.hidden + 3 * c.hidden * c.intermediate) +
      c.vocabulary * c.hidden);
  const auto pairs =
      static_cast<double>(s.shape.rows * c.heads * s.shape.sequence * (s.shape.sequence + 1) / 2);
  const auto dim = static_cast<double>(c.head_dim);
  const double outputs = tokens * static_cast<double>(c.heads * c.head_dim);
  const double attention =
      static_cast<double>(c.layers) * (pairs * (4 * dim + 4 + 10 * dim + 6) + 2 * outputs);
  const double expected = 3 * (6 * weights * tokens + attention);
  // Sums that products make on their way, of biases and residuals, come on top.
  const double found = plan::model_flops(plan_training(runtime, s).workload);
  EXPECT_GE(found, expected);
  EXPECT_LE(found, 1.005 * expected);
  s.fixed.recompute_blocks = c.layers;
  EXPECT_EQ(plan::model_flops(plan_training(runtime, s).workload), found)
      << "recomputing is not the model's work";
}

}  // namespace
}  // namespace ebb::engine
