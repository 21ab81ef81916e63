// Generation against PyTorch's logits, and against itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "ebb/error.h"
#include "engine/generator.h"
#include "engine/small_runs.h"
#include "files/safetensors.h"
#include "io/posix_file_system.h"
#include "plan/trace_check.h"

namespace ebb::engine {
namespace {

template <class T>
std::vector<T> read_all(const std::filesystem::path& path, const std::string& name) {
  io::PosixFileSystem files;
  const files::SafetensorsReader reader(files, path);
  const files::StoredTensor* tensor = reader.find(name);
  std::vector<T> values(static_cast<std::size_t>(tensor->bytes) / sizeof(T));
  reader.read(*tensor, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

class GenerationTest : public testing::TestWithParam<std::string> {
 protected:
  static constexpr std::int64_t kLength = 17;
  std::unique_ptr<Generator> make(DType dtype, std::int64_t positions = kLength) {
    return std::make_unique<Generator>(runtime_, files_, source(), settings(dtype, positions));
  }
  files::ModelSource source() {
    return files::find_model(files_, golden_folder(GetParam()).string());
  }
  GeneratorSettings settings(DType dtype, std::int64_t positions) {
    return {.config = source().config,
            .dtype = dtype,
            .positions = positions,
            .limits = {{plan::Tier::device, kGiB}, {plan::Tier::host, kGiB}},
            .extras = {{plan::Tier::host, "tokenizer", 12'345}}};
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

// Whatever was computed behind the prefix: a slice, or tokens one by one.
TEST_P(GenerationTest, ARewoundSequenceHasTheBitsOfAFreshOne) {
  const std::vector<std::int32_t> ids = prompt();
  const auto part = [&](std::size_t from, std::size_t count) {
    return std::span(ids).subspan(from, count);
  };
  const auto copy = [](std::span<const float> logits) {
    return std::vector<float>(logits.begin(), logits.end());
  };
  const auto fresh = make(DType::bf16);
  fresh->advance(part(0, 6));
  const std::vector<float> slice = copy(fresh->advance(part(9, 4)));
  const std::vector<float> token = copy(fresh->advance(part(2, 1)));

  const auto rewound = make(DType::bf16);
  rewound->advance(part(0, 6));
  rewound->advance(part(6, 8));
  for (const std::size_t i : {14, 15}) rewound->advance(part(i, 1));
  rewound->keep(6);
  EXPECT_EQ(rewound->length(), 6);
  EXPECT_EQ(copy(rewound->advance(part(9, 4))), slice);
  EXPECT_EQ(copy(rewound->advance(part(2, 1))), token);
  rewound->keep(10);
  rewound->keep(0);
  rewound->advance(part(0, 6));
  EXPECT_EQ(copy(rewound->advance(part(9, 4))), slice);
  EXPECT_THROW(rewound->keep(11), Error);
  EXPECT_THROW(rewound->keep(-1), Error);
}

TEST_P(GenerationTest, LimitsHold) {
  // With everything on the device; what can leave it is in generation_tiers_test.cpp.
  const auto fits = [&](Bytes device, bool resident = true) {
    try {
      GeneratorSettings limited = settings(DType::f32, 8);
      limited.limits[plan::Tier::device] = device;
      if (resident) limited.fixed.streamed_weights = 0;
      Generator generator(runtime_, files_, source(), limited);
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
  const Bytes needed = make(DType::f32, 8)->plan().peak(plan::Tier::device);
  EXPECT_FALSE(fits(needed - 1));
  EXPECT_TRUE(fits(needed));
  EXPECT_TRUE(fits(needed - 1, false));
}

TEST_P(GenerationTest, ThePeakIsTheOnePredicted) {
  const std::vector<std::int32_t> ids = prompt();
  for (const std::int64_t prompt_tokens : {std::int64_t{1}, std::int64_t{5}, kLength - 1}) {
    GeneratorSettings known = settings(DType::bf16, kLength);
    known.prompt_tokens = prompt_tokens;
    Generator generator(runtime_, files_, source(), known);
    generator.advance(std::span(ids).first(static_cast<std::size_t>(prompt_tokens)));
    generator.advance(std::span(ids).last(1));
    for (const plan::Tier tier : {plan::Tier::device, plan::Tier::host}) {
      EXPECT_EQ(generator.measured_peak(tier), generator.plan().peak(tier))
          << "tier " << int{tier.index} << ", a prompt of " << prompt_tokens;
      EXPECT_EQ(generator.ledger(tier).peak(), generator.plan().peak(tier));
    }
    EXPECT_EQ(generator.ledger(plan::Tier::host).by_purpose().at("tokenizer"), 12'345);
  }
}

TEST_P(GenerationTest, ItsTraceShowsTheLastSlicesAndTokens) {
  const std::vector<std::int32_t> ids = prompt();
  GeneratorSettings traced = settings(DType::f32, kLength);
  traced.trace_runs = 2;
  traced.prompt_tokens = 7;
  Generator generator(runtime_, files_, source(), traced);
  generator.advance(std::span(ids).first(14));
  for (const std::size_t i : {14, 15, 16}) generator.advance({&ids[i], 1});
  const std::vector<plan::Trace> traces = generator.trace();
  ASSERT_EQ(traces.size(), 2u);
  const double tolerance = test_device() == "cpu" ? 0 : 1e-4;
  const auto shown = [&](const plan::Trace& trace) {
    const plan::TraceCheck check(plan::text_of(trace), trace.plan, tolerance);
    check.expect_all();
    std::vector<std::int64_t> runs;
    for (const auto& [run, seconds] : check.step_seconds()) runs.push_back(run);
    return runs;
  };
  EXPECT_EQ(shown(traces[0]), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(shown(traces[1]), (std::vector<std::int64_t>{2, 3}));
}

// Who needs what, what is missing and what would help, each remedy tried.
TEST(GenerationRefusal, SaysWhatWouldHelp) {
  Runtime runtime(test_device(), 2);
  io::PosixFileSystem files;
  GeneratorSettings s{.config = files::find_model(files, "preset:tiny").config,
                      .dtype = DType::f32,
                      .positions = 1000,
                      .prompt_tokens = 400,
                      .limits = {{plan::Tier::device, kGiB}, {plan::Tier::host, kGiB}},
                      .fixed = {.streamed_weights = 0, .slice = 64}};
  const auto peak = [&](GeneratorSettings other) {
    return plan_generation(runtime, other).peak(plan::Tier::device);
  };
  GeneratorSettings fewer = s;
  fewer.positions = 600;
  GeneratorSettings halves = s;
  halves.dtype = DType::bf16;
  const Bytes limit = std::max(peak(fewer), peak(halves));
  ASSERT_LT(limit, peak(s));
  s.limits[plan::Tier::device] = limit;
  try {
    plan_generation(runtime, s);
    FAIL() << "it does not fit";
  } catch (const OutOfBudget& refusal) {
    const std::string text = refusal.what();
    for (const char* part :
         {"weights", "key-value cache", "workspace", "needed", "limit", "Missing on the device",
          "would do for this plan", "Closest plan: --weights resident", "--max-tokens ",
          "--dtype bf16", "--weights auto", "a smaller model"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
    }
    for (const std::string& remedy : refusal.remedies()) {
      EXPECT_NE(text.find("  - " + remedy), std::string::npos) << remedy;
    }
    EXPECT_GE(refusal.remedies().size(), 4u);
    const std::size_t at = text.find("--max-tokens ");
    GeneratorSettings advised = s;
    advised.positions = 400 + std::stol(text.substr(at + std::string("--max-tokens ").size()));
    EXPECT_LT(advised.positions, s.positions);
    EXPECT_NO_THROW(plan_generation(runtime, advised));
  }
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
