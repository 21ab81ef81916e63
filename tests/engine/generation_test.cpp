// Generation against PyTorch's logits, and against itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checkpoint/safetensors.h"
#include "ebb/error.h"
#include "engine/generator.h"
#include "engine/small_runs.h"
#include "io/posix_file_system.h"

namespace ebb::engine {
namespace {

template <class T>
std::vector<T> read_all(const std::filesystem::path& path, const std::string& name) {
  io::PosixFileSystem files;
  const checkpoint::SafetensorsReader reader(files, path);
  const checkpoint::StoredTensor* tensor = reader.find(name);
  std::vector<T> values(static_cast<std::size_t>(tensor->bytes) / sizeof(T));
  reader.read(*tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

class GenerationTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::int64_t kLength = 17;
  std::unique_ptr<Generator> make(DType dtype, std::int64_t positions = kLength) {
    return std::make_unique<Generator>(
        runtime_, files_, find_model(files_, golden_folder(GetParam()).string()), dtype, positions,
        plan::Limits{{plan::Tier::device, kGiB}, {plan::Tier::host, kGiB}});
  }
  std::vector<std::int32_t> prompt() {
    auto ids = read_all<std::int32_t>(golden_folder(GetParam()) / "tokens.safetensors", "ids");
    ids.resize(kLength);
    return ids;
  }
  // Of the whole prompt's positions.
  std::vector<float> expected() {
    return read_all<float>(golden_folder(GetParam()) / "logits.safetensors", "logits");
  }

  io::PosixFileSystem files_;
  Runtime runtime_{test_device(), 2};
};

double distance(std::span<const float> found, std::span<const float> expected) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / norm);
}

TEST_P(GenerationTest, LogitsMatchPyTorchAtEveryPosition) {
  const std::vector<std::int32_t> ids = prompt();
  const std::vector<float> all = expected();
  const std::size_t vocabulary = all.size() / ids.size();
  for (const auto& [dtype, allowed] : {std::pair{DType::f32, 1e-4}, {DType::bf16, 2e-2}}) {
    const auto generator = make(dtype);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto logits = generator->advance({&ids[i], 1});
      EXPECT_LT(distance(logits, std::span(all).subspan(i * vocabulary, vocabulary)), allowed)
          << name_of(dtype) << " position " << i;
    }
  }
}

TEST_P(GenerationTest, APromptAtOnceIsAsGoodAsTokenByToken) {
  const std::vector<std::int32_t> ids = prompt();
  const std::vector<float> all = expected();
  const std::size_t vocabulary = all.size() / ids.size();
  const auto last = std::span(all).last(vocabulary);
  EXPECT_LT(distance(make(DType::f32)->advance(ids), last), 1e-4);
  const auto generator = make(DType::f32);
  generator->advance(std::span(ids).first(5));
  EXPECT_LT(distance(generator->advance(std::span(ids).subspan(5)), last), 1e-4);
}

TEST_P(GenerationTest, LimitsHold) {
  const auto source = find_model(files_, golden_folder(GetParam()).string());
  const auto fits = [&](Bytes device) {
    try {
      Generator generator(runtime_, files_, source, DType::f32, 8,
                          {{plan::Tier::device, device}, {plan::Tier::host, kGiB}});
      const std::vector<std::int32_t> ids = {1, 2, 3};
      generator.advance(ids);
      EXPECT_LE(generator.measured_peak(), device);
      return true;
    } catch (const OutOfBudget& refusal) {
      EXPECT_NE(std::string(refusal.what()).find("Missing"), std::string::npos) << refusal.what();
      return false;
    }
  };
  EXPECT_FALSE(fits(0));
  EXPECT_FALSE(fits(kMiB / 8));
  EXPECT_TRUE(fits(256 * kMiB));
}

INSTANTIATE_TEST_SUITE_P(Families, GenerationTest,
                         testing::Values("training/llama", "training/qwen2",
                                         "families/llama_scaled", "families/llama_biases",
                                         "families/mistral", "families/qwen2", "families/qwen3",
                                         "families/gpt2", "families/gemma"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '/', '_');
                           return name;
                         });

}  // namespace
}  // namespace ebb::engine
