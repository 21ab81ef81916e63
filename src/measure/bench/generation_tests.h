// The tests of `ebb bench generate`, and the setups that each of them is made with. Their names are
// those that people know from llama-bench.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ebb/bench.h"
#include "model/config.h"

namespace ebb::measure {

// What is timed: a prompt that is read at once, tokens one after the other, or both, behind
// `depth` tokens that are not.
struct GenerationTest {
  std::int64_t depth = 0;
  std::int64_t prompt = 0;
  std::int64_t tokens = 0;
  std::int64_t batch = 1;  // sequences: their prompts one after the other, their tokens at once

  std::int64_t positions() const { return depth + prompt + tokens; }  // of a sequence
  std::int64_t timed_tokens() const { return batch * (prompt + tokens); }
  // "pp512", "tg128", "pp512+tg128", each perhaps with " x 32" and with " @ d8192".
  std::string name() const;

  friend bool operator==(const GenerationTest&, const GenerationTest&) = default;
};

// What tests are made with besides the number of threads, which takes a runtime of its own.
struct GenerationSetup {
  std::string model;
  FloatType dtype = FloatType::automatic;
  std::optional<Bytes> device_memory{};
  std::optional<Bytes> host_memory{};
};

// Depth by depth and batch by batch: prompts, tokens, both. Throws ConfigError that names the flag
// for what is no test.
std::vector<GenerationTest> generation_tests(const GenerateBenchOptions& options);

// Every combination of what was given, on a device of this kind: "cpu" or "cuda".
std::vector<GenerationSetup> generation_setups(const GenerateBenchOptions& options,
                                               const std::string& device);

// Throws ConfigError where a test has more positions than the model knows.
void check_positions(const std::vector<GenerationTest>& tests, const std::string& model,
                     const model::Config& config);

}  // namespace ebb::measure
