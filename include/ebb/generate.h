// Text from a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/types.h"
#include "ebb/units.h"

namespace ebb {

// How the tokens of a text are chosen. What is not given is as the model's generation_config.json
// says, else temperature 0.8, all tokens and 1.
struct SamplingOptions {
  std::int64_t max_tokens = 200;
  std::optional<double> temperature{};  // 0: always the likeliest token
  std::optional<std::int64_t> top_k{};  // 0: all
  std::optional<double> top_p{};
  std::uint64_t seed = 0;
};

// Where weights and the key-value cache live, and the processor that computes with them. What is
// not given is as the plan says, which prints its choice as these flags.
struct GenerationPlacement {
  // For weights that host memory cannot hold; nothing of them is left there at the end.
  std::vector<DiskFolder> disk{};
  Blocks weights{};                            // whose weights are not on the device
  std::optional<std::int64_t> disk_weights{};  // of those layers, whose weights are on the disk
  AttentionWeights attention = AttentionWeights::automatic;  // of those layers
  Blocks cpu_blocks{};         // of those layers: computed by the CPU for tokens
  Blocks cpu_prompt_blocks{};  // and in a prompt
  CachePlacement cache = CachePlacement::automatic;
  std::optional<std::int64_t> slice{};  // tokens of a prompt that go through the model at once
  std::optional<std::int64_t> depth{};  // weights on their way at once
};

struct GenerateOptions : SamplingOptions {
  std::string model;      // a model's folder, or a run's: its last checkpoint
  std::string tokenizer;  // a folder with tokenizer.json; empty: the model's own, or bytes
  std::string prompt;
  bool chat = false;   // the prompt is what a user says, put through the model's chat template
  std::string system;  // with chat: the instructions before it
  FloatType dtype = FloatType::automatic;  // as stored
  DeviceKind device = DeviceKind::automatic;
  int threads = 0;
  std::optional<Bytes> device_memory{};
  std::optional<Bytes> host_memory{};
  std::string trace{};  // a file for the lanes of the last tokens (docs/trace.md); empty: none
  bool verify = true;   // a checkpoint's checksums, before its weights are used
  GenerationPlacement placement{};
};

enum class EndedBy : std::uint8_t { length, stop, caller };  // stop: a token that ends texts

struct GenerateSummary {
  std::string text;               // without the prompt
  std::vector<std::int32_t> ids;  // without the one that ended the text
  EndedBy ended_by = EndedBy::length;
  std::int64_t prompt_tokens = 0;
  std::int64_t tokens = 0;
  std::string settings;  // how tokens were chosen and where the text ends, for people
  std::string warning;   // what makes the text other than the model's name says; empty: nothing
  double prompt_seconds = 0;
  double tokens_per_second = 0;
  Bytes device_limit = 0;
  Bytes device_peak = 0;
  std::string plan;  // the flags that reproduce where everything was
  std::string json;  // all of it, the ids and the text too
};

// Takes the text as it comes, whole characters at a time; returns false to stop. Empty: nobody
// does.
using TextSink = std::function<bool(std::string_view piece)>;

// Generator (ebb/generator.h) as one call, which loads the weights for it. `stop` ends the text as
// the sink does; while weights are read, it throws Cancelled.
GenerateSummary generate(const GenerateOptions& options, const TextSink& sink,
                         std::stop_token stop = {});

// Where every byte would go and what the prompt and a token would take, on this machine or on one
// that need not be here (a name that Ebb knows, or a profile's file). `options.prompt` is not read.
// With `options.trace`, writes the predicted lanes there. Throws OutOfBudget where it does not fit.
std::string explain_generation(const GenerateOptions& options, std::int64_t prompt_tokens,
                               const std::string& machine = "");

}  // namespace ebb
