#include "measure/bench/generation_tests.h"

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::measure {
namespace {

// Far more than any model knows, and so few that sums of three cannot overflow.
constexpr std::int64_t kMostTokens = 1 << 30;

// And as many sequences as a generator may have.
constexpr std::int64_t kMostSequences = 1024;

std::int64_t checked(std::int64_t value, std::int64_t least, const std::string& flag,
                     std::int64_t most = kMostTokens) {
  if (value >= least && value <= most) return value;
  throw ConfigError(fmt::format("{} {}: expected {} to {}", flag, value, least, most));
}

// What was given, or one that stands for nothing being said.
template <class T, class Given>
std::vector<std::optional<T>> or_nothing(const std::vector<Given>& given) {
  if (given.empty()) return {std::nullopt};
  return {given.begin(), given.end()};
}

}  // namespace

std::string GenerationTest::name() const {
  std::string name;
  if (prompt > 0) name = fmt::format("pp{}", prompt);
  if (tokens > 0) name += fmt::format("{}tg{}", name.empty() ? "" : "+", tokens);
  if (batch > 1) name += fmt::format(" x {}", batch);
  return depth > 0 ? fmt::format("{} @ d{}", name, depth) : name;
}

std::vector<GenerationTest> generation_tests(const GenerateBenchOptions& o) {
  std::vector<GenerationTest> shallow;
  for (const std::int64_t prompt : o.prompt_tokens) {
    shallow.push_back({.prompt = checked(prompt, 1, "--prompt-tokens")});
  }
  for (const std::int64_t tokens : o.tokens) {
    shallow.push_back({.tokens = checked(tokens, 1, "--tokens")});
  }
  for (const auto& [prompt, tokens] : o.both) {
    shallow.push_back({.prompt = checked(prompt, 1, "--pg"), .tokens = checked(tokens, 1, "--pg")});
  }
  if (shallow.empty()) shallow = {{.prompt = 512}, {.tokens = 128}};
  std::vector<GenerationTest> tests;
  for (const std::int64_t depth : o.depths.empty() ? std::vector<std::int64_t>{0} : o.depths) {
    checked(depth, 0, "--depth");
    for (const std::int64_t batch : o.batches.empty() ? std::vector<std::int64_t>{1} : o.batches) {
      for (GenerationTest test : shallow) {
        test.depth = depth;
        test.batch = checked(batch, 1, "--batch", kMostSequences);
        tests.push_back(test);
      }
    }
  }
  return tests;
}

std::vector<GenerationSetup> generation_setups(const GenerateBenchOptions& o,
                                               const std::string& device) {
  std::vector<std::string> models = o.models;
  if (models.empty()) models = {device == "cpu" ? "preset:small" : "preset:qwen2.5-7b"};
  std::vector<FloatType> dtypes = o.dtypes;
  if (dtypes.empty()) dtypes = {FloatType::automatic};
  std::vector<GenerationSetup> setups;
  for (const std::string& model : models) {
    for (const FloatType dtype : dtypes) {
      for (const auto& on_device : or_nothing<Bytes>(o.device_memory)) {
        for (const auto& on_host : or_nothing<Bytes>(o.host_memory)) {
          setups.push_back({model, dtype, on_device, on_host});
        }
      }
    }
  }
  return setups;
}

void check_positions(const std::vector<GenerationTest>& tests, const std::string& model,
                     const model::Config& config) {
  for (const GenerationTest& test : tests) {
    if (test.positions() <= config.max_positions) continue;
    throw ConfigError(fmt::format(
        "{}: the test has {} positions, but {} knows {} only; give a smaller --depth, or fewer "
        "tokens",
        test.name(), test.positions(), model, config.max_positions));
  }
}

}  // namespace ebb::measure
