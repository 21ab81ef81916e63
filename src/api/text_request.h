// One text to be generated, of a prompt that is ids already.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/opened_model.h"
#include "ebb/generate.h"
#include "engine/generation_settings.h"
#include "engine/generator.h"
#include "model/config.h"

namespace ebb::api {

struct TextRequest {
  std::vector<std::int32_t> ids;  // of the prompt
  std::string prompt;             // as it was given, for the summary
  bool answers = false;           // what comes begins a text; else it continues the prompt's
  SamplingOptions sampling;
};

TextRequest continuation(const Model& model, const std::string& prompt,
                         const SamplingOptions& sampling);
// A template writes out whatever the model wants before a text.
TextRequest answer(const Model& model, const std::vector<ChatMessage>& messages,
                   const SamplingOptions& sampling);

// A prompt's tokens and the flag that they came by: --prompt, or --prompt-tokens of a plan.
struct PromptLength {
  std::string_view flag;
  std::int64_t tokens = 0;
};

// Throws ConfigError where prompt and text have more tokens than the model has positions or, if
// that has fewer, the generator (`positions`).
void check_length(const PromptLength& prompt, std::int64_t max_tokens, const model::Config& config,
                  std::int64_t positions);
void check_length(const TextRequest& request, const OpenedModel& model, std::int64_t positions);

// A flag, `stored` or a default. Throws ConfigError.
engine::GenerationSettings choose(const TextRequest& request, const OpenedModel& model,
                                  const std::optional<files::GenerationConfig>& stored);

// As a sequence of its own: all of the summary but device_limit and json.
GenerateSummary generate_text(engine::Generator& generator, const OpenedModel& model,
                              const TextRequest& request,
                              const engine::GenerationSettings& settings, const TextSink& sink,
                              const std::stop_token& stop);

// All of it for programs.
std::string to_json(const GenerateSummary& summary, const TextRequest& request,
                    const engine::GenerationSettings& settings, const OpenedModel& model);

}  // namespace ebb::api
