// A model with its weights in memory, which writes any number of texts.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "ebb/generate.h"
#include "ebb/model.h"

namespace ebb {

struct GeneratorOptions {
  // Tokens that a sequence may have, prompt included: the key-value cache is made for so many.
  // 0: as many as the model knows, 4096 at most.
  std::int64_t positions = 0;
  // Of the prompts that are to come, about: the plan is made for it. 0: not known.
  std::int64_t prompt_tokens = 0;
  FloatType dtype = FloatType::automatic;  // as stored
  DeviceKind device = DeviceKind::automatic;
  int threads = 0;  // 0: as many as the machine lets us use
  // Limits of this generator; none means what the machine has.
  std::optional<Bytes> device_memory{};
  std::optional<Bytes> host_memory{};
  // A file for the lanes of a text's last tokens (docs/trace.md), written anew with every text.
  // Empty: none.
  std::string trace{};
  GenerationPlacement placement{};
};

// Calls come from one thread at a time; several generators may work at once, each in memory and
// with threads of its own. Failures are an ebb::Error; after a ConfigError it is as it was.
class Generator {
 public:
  // Plans (OutOfBudget), takes all memory and reads the weights: `stop` ends that with Cancelled.
  explicit Generator(const Model& model, const GeneratorOptions& options = {},
                     std::stop_token stop = {});
  ~Generator();
  Generator(Generator&&) noexcept;
  Generator& operator=(Generator&&) noexcept;

  // Continues a text. Every call is a sequence of its own: equal prompts, options and seeds give
  // equal texts. `stop` ends it after the token under way (EndedBy::caller).
  GenerateSummary generate(const std::string& prompt, const SamplingOptions& sampling = {},
                           const TextSink& sink = {}, std::stop_token stop = {});
  GenerateSummary generate(std::span<const std::int32_t> prompt,
                           const SamplingOptions& sampling = {}, const TextSink& sink = {},
                           std::stop_token stop = {});
  // Answers a conversation, put through the model's chat template.
  GenerateSummary answer(const std::vector<ChatMessage>& messages,
                         const SamplingOptions& sampling = {}, const TextSink& sink = {},
                         std::stop_token stop = {});

  const Model& model() const;
  std::int64_t positions() const;

 private:
  struct Loaded;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace ebb
