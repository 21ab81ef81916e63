// The options of the public API, read from JSON objects: fields by their names, choices by the
// words of the command line. All throw ConfigError.
#pragma once

#include <string>

#include "base/json_fwd.h"
#include "ebb/evaluate.h"
#include "ebb/generator.h"
#include "ebb/model.h"
#include "ebb/train.h"

namespace ebb::api {

TrainOptions train_options(const Json& json);
EvaluateOptions evaluate_options(const Json& json);
ModelOptions model_options(const Json& json);
GeneratorOptions generator_options(const Json& json);
GenerateOptions generate_options(const Json& json);

// What a Generator is to continue or answer: one of `prompt`, `ids` and `messages`.
struct TextRequest {
  std::optional<std::string> prompt;
  std::optional<std::vector<std::int32_t>> ids;
  std::optional<std::vector<ChatMessage>> messages;
  SamplingOptions sampling;
};
TextRequest text_request(const Json& json);

std::vector<std::int32_t> token_ids(const Json& json);
std::vector<ChatMessage> chat_messages(const Json& json);

}  // namespace ebb::api
