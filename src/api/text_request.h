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

// A value: the model that made the ids is not kept.
struct TextRequest {
  std::vector<std::int32_t> ids;  // of the prompt
  std::string prompt;             // as it was given, for the summary
  bool answers = false;           // what comes begins a text; else it continues the prompt's
  SamplingOptions sampling;
};

// The prompt behind what the tokenizer puts before every text.
TextRequest continuation(const Model& model, const std::string& prompt,
                         const SamplingOptions& sampling);
// The conversation put through the model's chat template, which writes out whatever the model wants
// before a text: the tokenizer adds nothing. Throws ConfigError where there is no template,
// FormatError where it refuses the conversation.
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
// The same of a request, whose ids must be ones that the model has.
void check_request(const TextRequest& request, const OpenedModel& model, std::int64_t positions);

// How tokens are chosen: a flag wins over `stored`, which wins over Ebb's defaults. Throws
// ConfigError.
engine::GenerationSettings choose(const TextRequest& request, const OpenedModel& model,
                                  const std::optional<files::GenerationConfig>& stored);

// Starts a new sequence, whatever `generator` held, and returns when the text has ended. `sink` is
// called on this thread; what it throws goes to the caller. Fills all of the summary but
// device_limit and json. The request must have passed check_length().
GenerateSummary generate_text(engine::Generator& generator, const OpenedModel& model,
                              const TextRequest& request,
                              const engine::GenerationSettings& settings, const TextSink& sink,
                              const std::stop_token& stop);

// The summary as one JSON object on one line, for programs. Bytes that are not UTF-8 are replaced.
std::string to_json(const GenerateSummary& summary, const TextRequest& request,
                    const engine::GenerationSettings& settings, const OpenedModel& model);

}  // namespace ebb::api
