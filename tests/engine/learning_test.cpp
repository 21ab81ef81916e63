// Training against PyTorch: golden files made by tools/golden/make_training.py and
// make_families.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "base/json.h"
#include "engine/small_runs.h"
#include "files/model/source.h"
#include "files/safetensors.h"
#include "io/posix_file_system.h"
#include "io/text_file.h"

namespace ebb::engine {
namespace {

std::vector<float> read_floats(const files::SafetensorsReader& reader, const std::string& name) {
  const files::StoredTensor* tensor = reader.find(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<float> values(static_cast<std::size_t>(tensor->bytes / 4));
  reader.read(*tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

// The norm of the difference over the norm.
double distance(std::span<const float> found, std::span<const float> expected) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

struct Golden {
  Json json;
  std::vector<std::int32_t> ids;
  std::int64_t steps, accumulate, rows, length;
};

Golden read_golden(io::FileSystem& files, const std::string& family) {
  Golden g;
  g.json = Json::parse(io::read_text(files, golden_folder(family) / "golden.json", kMiB));
  g.steps = g.json["steps"];
  g.accumulate = g.json["accumulate"];
  g.rows = g.json["rows"];
  g.length = g.json["length"];
  const files::SafetensorsReader reader(files, golden_folder(family) / "tokens.safetensors");
  const files::StoredTensor* ids = reader.find("ids");
  g.ids.resize(static_cast<std::size_t>(ids->bytes / 4));
  reader.read(*ids, 0, std::as_writable_bytes(std::span(g.ids)));
  return g;
}

std::vector<text::Batch> batches_of(const Golden& g, std::int64_t step) {
  std::vector<text::Batch> batches;
  for (std::int64_t m = 0; m < g.accumulate; ++m) {
    text::Batch batch;
    for (std::int64_t r = 0; r < g.rows; ++r) {
      const auto* row = g.ids.data() + ((step * g.accumulate + m) * g.rows + r) * (g.length + 1);
      batch.tokens.insert(batch.tokens.end(), row, row + g.length);
      batch.targets.insert(batch.targets.end(), row + 1, row + g.length + 1);
    }
    batches.push_back(std::move(batch));
  }
  return batches;
}

TrainingSettings settings_of(const Golden& g, const model::Config& config, DType dtype) {
  TrainingSettings s = small_settings();
  s.config = config;
  s.shape = {.rows = g.rows, .sequence = g.length};
  s.accumulate = g.accumulate;
  s.dtype = s.gradient_type = dtype;
  const Json& o = g.json["optimizer"];
  s.rule = states::AdamW{.beta1 = o["beta1"],
                         .beta2 = o["beta2"],
                         .epsilon = o["eps"],
                         .weight_decay = o["weight_decay"]};
  s.clip = o["clip_grad_norm"];
  const Json& schedule = g.json["schedule"];
  s.schedule = {.shape = states::Schedule::Shape::cosine,
                .peak = schedule["peak_lr"],
                .warmup = schedule["warmup_steps"],
                .steps = g.steps,
                .final_share = schedule["final_share"]};
  return s;
}

// How the weights that a run ended with compare with PyTorch's, over all tensors that decay.
struct Agreement {
  double error = 0;   // the distance, as a share of how far training moved them
  double along = 0;   // how far along PyTorch's way they came: 1
  double shrunk = 0;  // by what share they are smaller along the initial weights: 0
};

class LearningTest : public testing::TestWithParam<std::string> {
 protected:
  // Trains as the golden files say; `allowed` is the error of losses and, relative, of norms.
  void train(DType dtype, double allowed) {
    TrainingSettings settings = settings_of(golden_, source_.config, dtype);
    if (change_rule_ != nullptr) change_rule_(std::get<states::AdamW>(settings.rule));
    run_ = std::make_unique<TrainingRun>(runtime_, settings);
    files::load_weights(files_, source_, run_->store().parameters(),
                        [&](int p, std::int64_t first, std::span<const float> values) {
                          run_->store().write_master(p, first, values);
                        });
    run_->store().clear_moments();
    for (std::int64_t step = 0; step < golden_.steps; ++step) {
      const Json& record = golden_.json["records"][static_cast<std::size_t>(step)];
      EXPECT_NEAR(run_->learning_rate(step + 1), record["lr"].get<double>(), 1e-12);
      const StepResult result = run_->step(batches_of(golden_, step));
      EXPECT_NEAR(result.loss, record["loss"].get<double>(), allowed) << "step " << step + 1;
      EXPECT_NEAR(result.norm / record["grad_norm"].get<double>(), 1.0, allowed)
          << "step " << step + 1;
    }
    run_->finish();
  }

  // Nothing where the golden files have no weights.
  std::optional<Agreement> agreement() {
    const auto final = golden_folder(GetParam()) / "final.safetensors";
    if (!files_.exists(final)) return std::nullopt;
    const files::SafetensorsReader expected(files_, final);
    const files::SafetensorsReader initial(files_, source_.folder / "model.safetensors");
    double errors = 0, moves = 0, along = 0, sizes = 0, shrunk = 0;
    const auto& all = run_->store().parameters().all;
    for (int p = 0; p < static_cast<int>(all.size()); ++p) {
      if (!all[static_cast<std::size_t>(p)].matrix) continue;
      const std::string& name = all[static_cast<std::size_t>(p)].name;
      const std::vector<float> want = read_floats(expected, name);
      const std::vector<float> start = read_floats(initial, name);
      std::vector<float> found(want.size());
      run_->store().read_master(p, 0, found);
      for (std::size_t i = 0; i < want.size(); ++i) {
        const double move = static_cast<double>(want[i]) - start[i];
        const double error = static_cast<double>(found[i]) - want[i];
        errors += error * error;
        moves += move * move;
        along += (move + error) * move;
        sizes += static_cast<double>(start[i]) * start[i];
        shrunk -= error * start[i];
      }
    }
    return Agreement{std::sqrt(errors / moves), along / moves, shrunk / sizes};
  }

  static bool agrees(const Agreement& a) {
    return a.error < 0.02 && std::abs(a.along - 1) < 0.002 && std::abs(a.shrunk) < 1e-3;
  }

  void (*change_rule_)(states::AdamW&) = nullptr;
  io::PosixFileSystem files_;
  Golden golden_ = read_golden(files_, GetParam());
  files::ModelSource source_ = files::find_model(files_, golden_folder(GetParam()).string());
  Runtime runtime_{test_device(), 2};
  std::unique_ptr<TrainingRun> run_;
};

TEST_P(LearningTest, TwentyStepsMatchPyTorch) {
  train(DType::f32, 1e-4);
  if (!files_.exists(golden_folder(GetParam()) / "final.safetensors")) return;
  const files::SafetensorsReader expected(files_, golden_folder(GetParam()) / "final.safetensors");
  const files::SafetensorsReader initial(files_, source_.folder / "model.safetensors");
  const auto& all = run_->store().parameters().all;
  for (int p = 0; p < static_cast<int>(all.size()); ++p) {
    const std::string& name = all[static_cast<std::size_t>(p)].name;
    const std::vector<float> want = read_floats(expected, name);
    std::vector<float> found(want.size());
    run_->store().read_master(p, 0, found);
    EXPECT_LT(distance(found, want), 1e-4) << name;
    // The test means something only if training moved the tensor by far more than that.
    EXPECT_GT(distance(read_floats(initial, name), want), 3e-3) << name;
  }
}

// bf16 has 8 bits of precision: losses and norms to about one in 2^7. Rounding is noise of its own
// in every gradient, which AdamW does not make smaller, so single weights differ; their sums along
// PyTorch's way and along the initial weights do not, and these tell what an optimizer does wrong.
TEST_P(LearningTest, TwentyStepsInBf16AreAsGoodAsBf16) {
  train(DType::bf16, 2e-2);
  if (const auto found = agreement()) {
    fmt::print("error {:.4f} along {:.5f} shrunk {:.6f}\n", found->error, found->along,
               found->shrunk);
    EXPECT_TRUE(agrees(*found));
  }
}

// Of the models whose weights after PyTorch's training are there to compare with.
class WeightsTest : public LearningTest {};

TEST_P(WeightsTest, AnotherOptimizerInBf16IsSeen) {
  const std::vector<std::pair<const char*, void (*)(states::AdamW&)>> wrong = {
      {"beta1", [](states::AdamW& rule) { rule.beta1 = 0.85; }},
      {"beta2", [](states::AdamW& rule) { rule.beta2 = 0.99; }},
      {"no decay", [](states::AdamW& rule) { rule.weight_decay = 0; }},
      {"epsilon", [](states::AdamW& rule) { rule.epsilon = 1e-3; }}};
  for (const auto& [name, change] : wrong) {
    change_rule_ = change;
    train(DType::bf16, 1e9);
    const Agreement found = *agreement();
    fmt::print("{}: error {:.4f} along {:.5f} shrunk {:.6f}\n", name, found.error, found.along,
               found.shrunk);
    EXPECT_FALSE(agrees(found)) << name;
  }
}

std::string test_name(const std::string& path) {
  std::string name = path;
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, WeightsTest, testing::Values("training/llama", "training/qwen2"),
                         [](const auto& info) { return test_name(info.param); });

INSTANTIATE_TEST_SUITE_P(Families, LearningTest,
                         testing::Values("training/llama", "training/qwen2",
                                         "families/llama_scaled", "families/llama_biases",
                                         "families/mistral", "families/qwen2", "families/qwen3",
                                         "families/gpt2", "families/gemma"),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace ebb::engine
