// Families against transformers: golden files made by tools/golden/make_families.py.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/thread_pool.h"
#include "files/safetensors.h"
#include "io/posix_file_system.h"
#include "kernels/cpu/cpu_ops.h"
#include "model/small_model.h"
#include "paths.h"

namespace ebb::model {
namespace {

std::filesystem::path golden(const std::string& name) { return golden_folder("families") / name; }

Json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

template <class T>
std::vector<T> read_tensor(const files::SafetensorsReader& reader, const std::string& name) {
  const files::StoredTensor* tensor = reader.find(name);
  if (tensor == nullptr) throw std::runtime_error("no tensor " + name);
  std::vector<T> values(static_cast<std::size_t>(tensor->bytes) / sizeof(T));
  reader.read(*tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

// The norm of the difference over the norm.
double distance(std::span<const float> found, std::span<const float> expected) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

class FamilyTest : public testing::TestWithParam<std::tuple<std::string, bool>> {
 protected:
  static constexpr std::int64_t kRows = 3, kLength = 17;

  // The golden model with the first batch, and targets some of which are ignored.
  SmallModel make() {
    const Config config =
        parse_config(read_json(folder_ / "config.json"), (folder_ / "config.json").string());
    const bool on_cpu = std::get<1>(GetParam());
    SmallModel model(config, {.rows = kRows, .sequence = kLength}, 3, on_cpu ? &cpu_ : nullptr);
    const files::SafetensorsReader reader(files_, folder_ / "model.safetensors");
    for (const Parameter& p : model.parameters.all) {
      const auto values = read_tensor<float>(reader, p.name);
      EXPECT_EQ(static_cast<std::int64_t>(values.size()), p.count()) << p.name;
      std::copy(values.begin(), values.end(),
                model.weights[static_cast<std::size_t>(p.block)].begin() + p.first);
    }
    const auto ids = read_tensor<std::int32_t>(
        files::SafetensorsReader(files_, folder_ / "tokens.safetensors"), "ids");
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::copy_n(ids.begin() + row * (kLength + 1), kLength, model.ids.begin() + row * kLength);
    }
    model.targets = read_tensor<std::int32_t>(
        files::SafetensorsReader(files_, folder_ / "gradients.safetensors"), "targets");
    return model;
  }

  io::PosixFileSystem files_;
  std::filesystem::path folder_ = golden(std::get<0>(GetParam()));
  ThreadPool pool_{2};
  kernels::CpuModelLibrary library_{pool_};
  std::vector<std::byte> scratch_ = std::vector<std::byte>(16 * kMiB);
  kernels::CpuOps cpu_{library_, scratch_};
};

TEST_P(FamilyTest, LogitsMatchAtEveryPosition) {
  SmallModel model = make();
  const auto expected = read_tensor<float>(
      files::SafetensorsReader(files_, folder_ / "logits.safetensors"), "logits");
  const auto vocabulary = static_cast<std::size_t>(model.decoder.config().vocabulary);
  const Floats states = model.forward().back();
  Floats found;
  for (std::int64_t i = 0; i < kLength; ++i) {
    Floats row(vocabulary);
    Workspace work;
    Carver carver = work.carver();
    const SequenceTokens tokens{.length = i + 1};
    model.decoder.logits(model.ops, bytes_of(model.weights.back()), bytes_of(model.weights.front()),
                         bytes_of(states), {&tokens, 1}, row.data(), carver);
    found.insert(found.end(), row.begin(), row.end());
  }
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_LT(distance(found, expected), 1e-5);
}

TEST_P(FamilyTest, EveryGradientMatchesWithIgnoredTargets) {
  SmallModel model = make();
  const auto counted = std::count_if(model.targets.begin(), model.targets.end(),
                                     [](std::int32_t target) { return target >= 0; });
  ASSERT_LT(counted, kRows * kLength) << "no target is ignored";
  for (Floats& gradient : model.gradients) {
    std::fill(gradient.begin(), gradient.end(), std::nanf(""));
  }
  const double loss = model.step(1.0f / static_cast<float>(counted));
  const double expected = read_json(folder_ / "golden.json")["masked_loss"];
  EXPECT_NEAR(loss / static_cast<double>(counted), expected, 1e-5);
  const files::SafetensorsReader reader(files_, folder_ / "gradients.safetensors");
  for (const Parameter& p : model.parameters.all) {
    const Floats& block = model.gradients[static_cast<std::size_t>(p.block)];
    const std::span found(block.data() + p.first, static_cast<std::size_t>(p.count()));
    const auto want = read_tensor<float>(reader, p.name);
    ASSERT_EQ(found.size(), want.size()) << p.name;
    EXPECT_LT(distance(found, want), 1e-4) << p.name;
  }
}

// What is written says the same as what transformers wrote.
TEST_P(FamilyTest, ConfigSurvivesBeingWritten) {
  const std::string where = (folder_ / "config.json").string();
  const Json theirs = read_json(folder_ / "config.json");
  const Config config = parse_config(theirs, where);
  const Json ours = to_json(config, "fp32");
  EXPECT_EQ(parse_config(ours, where), config);
  for (const auto& [key, value] : ours.items()) {
    if (!theirs.contains(key) || theirs[key].is_null() || key == "max_window_layers") continue;
    // Objects are equal in any order of their keys.
    EXPECT_EQ(nlohmann::json(theirs[key]), nlohmann::json(value)) << key;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, FamilyTest,
                         testing::Combine(testing::Values("llama_scaled", "llama_biases", "mistral",
                                                          "qwen2", "qwen3", "gpt2", "gemma"),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  (std::get<1>(info.param) ? "_cpu" : "_reference");
                         });

}  // namespace
}  // namespace ebb::model
