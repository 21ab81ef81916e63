// One text to be generated, of a prompt that is ids already.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/opened_model.h"
#include "ebb/generate.h"
#include "engine/generation_settings.h"
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

// How many tokens a text may have.
struct TextTokens {
  std::int64_t most = 0;
  std::string note;  // for people, where fewer fit than is usual; empty: nothing
};

// As many as the user asked for, else as is usual or as fit. Throws ConfigError where prompt and
// text have more tokens than the model has positions or, if that has fewer, the generator
// (`positions`).
TextTokens text_tokens(const PromptLength& prompt, std::optional<std::int64_t> max_tokens,
                       const model::Config& config, std::int64_t positions);
// Texts at once. Throws ConfigError for a number that no generator has.
std::int64_t check_sequences(std::int64_t sequences);
// Throws ConfigError for what choose() does not look at.
void check_sampling(const SamplingOptions& sampling);
// Both of a request, whose ids must be ones that the model has.
TextTokens check_request(const TextRequest& request, const OpenedModel& model,
                         std::int64_t positions);

// How tokens are chosen: a flag wins over `stored`, which wins over Ebb's defaults. Throws
// ConfigError.
engine::GenerationSettings choose(const TextRequest& request, const OpenedModel& model,
                                  const std::optional<files::GenerationConfig>& stored);

// What makes a text other than the model's name says, for people; empty: nothing.
std::string warning_of(const files::ModelSource& source);

// The summary as one JSON object on one line, for programs. Bytes that are not UTF-8 are replaced.
std::string to_json(const GenerateSummary& summary, const TextRequest& request,
                    const engine::GenerationSettings& settings, const OpenedModel& model);

}  // namespace ebb::api
