// Text from a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "ebb/prompts.h"
#include "ebb/types.h"
#include "ebb/units.h"

namespace ebb {

// How the tokens of a text are chosen (docs/sampling.md has the order of the filters) and where it
// ends. What is not given is as the model's generation_config.json says, else temperature 0.8 and
// no filter.
struct SamplingOptions {
  std::optional<std::int64_t> max_tokens{};  // none: 200, or what fits where that is less
  std::optional<double> temperature{};       // 0: always the likeliest token
  std::optional<std::int64_t> top_k{};       // 0: all
  std::optional<double> top_p{};
  std::optional<double> min_p{};               // a share of the likeliest token's probability
  std::optional<double> repetition_penalty{};  // above 1: tokens that were there become unlikelier
  std::int64_t repetition_window = 0;          // how many of the last tokens count; 0: all
  std::uint64_t seed = 0;
  // The text ends before the first of these, which is not part of it. None may be empty.
  std::vector<std::string> stop{};
  bool show_special = false;  // tokens that are marks for models are part of the text
  // The log-probability of each token and of so many that were likeliest there. None: not computed.
  std::optional<std::int64_t> log_probs{};
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
  std::string model;      // as Model::open takes it (ebb/model.h)
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
  std::int64_t sequences = 1;  // of several prompts, so many texts at once
};

// stop: a token that ends texts; stop_text: one of SamplingOptions::stop.
enum class EndedBy : std::uint8_t { length, stop, stop_text, caller };

// Of the model itself: before temperature and filters.
struct LogProbability {
  std::int32_t id = 0;
  double log_probability = 0;  // natural logarithm
};
struct TokenLogProbabilities {
  LogProbability chosen;
  std::vector<LogProbability> likeliest;  // by falling probability
};

struct GenerateSummary {
  std::string text;  // without the prompt
  // Without the token that ended the text; with those that spell a stop text.
  std::vector<std::int32_t> ids;
  std::vector<TokenLogProbabilities> log_probabilities;  // for each of ids, where asked for
  EndedBy ended_by = EndedBy::length;
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;  // of the prompt, which the key-value cache had already
  std::int64_t tokens = 0;
  std::string settings;  // how tokens were chosen and where the text ends, for people
  std::string warning;   // what makes the text other than the model's name says; empty: nothing
  std::string note;      // what was changed so that the text fits; empty: nothing
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

// The same for several prompts (ebb/prompts.h), with the weights read once and no text depending on
// the others (Generator::begin says what holds on a GPU); `options.sequences` are written at once.
// All prompts are checked before the first text is written.
// `options.prompt` and `options.chat` are not read: a prompt that has messages goes through the
// chat template. `answered` takes the summaries in the order of the prompts, each as soon as it and
// those before it are there, and returns false to stop; a text that `stop` ended is the last.
void generate_each(const GenerateOptions& options, const std::vector<Prompt>& prompts,
                   const std::function<bool(const GenerateSummary&)>& answered,
                   std::stop_token stop = {});

// Where every byte would go and what a prompt and a token of each of `options.sequences` would
// take, on this machine or on one that need not be here (a name that Ebb knows, or a profile's
// file). `options.prompt` is not read. With `options.trace`, writes the predicted lanes there.
// Throws OutOfBudget where it does not fit.
std::string explain_generation(const GenerateOptions& options, std::int64_t prompt_tokens,
                               const std::string& machine = "");

}  // namespace ebb
