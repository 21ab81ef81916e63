#include "api/text_request.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::api {
namespace {

std::string_view word_of(EndedBy end) {
  switch (end) {
    case EndedBy::length: break;
    case EndedBy::stop: return "stop";
    case EndedBy::stop_text: return "stop_text";
    case EndedBy::caller: return "caller";
  }
  return "length";
}

// As many tokens as a text has where nobody asks for a number.
constexpr std::int64_t kUsualTokens = 200;
constexpr std::int64_t kMostLogProbs = 1000;
constexpr std::int64_t kMostSequences = 1024;

std::string spelled(std::int32_t id, const text::Tokenizer& tokenizer) {
  return id < tokenizer.vocabulary() ? tokenizer.decode_next({&id, 1}) : std::string();
}

Json to_json(const LogProbability& token, const text::Tokenizer& tokenizer) {
  return {{"id", token.id},
          {"text", spelled(token.id, tokenizer)},
          {"log_probability", token.log_probability}};
}

Json to_json(const std::vector<TokenLogProbabilities>& tokens, const text::Tokenizer& tokenizer) {
  Json list = Json::array();
  for (const TokenLogProbabilities& token : tokens) {
    list.push_back(to_json(token.chosen, tokenizer));
    Json& likeliest = list.back()["likeliest"] = Json::array();
    for (const LogProbability& other : token.likeliest) {
      likeliest.push_back(to_json(other, tokenizer));
    }
  }
  return list;
}

}  // namespace

// A preset is a shape without weights.
std::string warning_of(const files::ModelSource& source) {
  if (!source.has_weights()) {
    return fmt::format("The weights of {} are random, as nobody has trained them: so is the text",
                       source.name);
  }
  return source.head_note;
}

std::string to_json(const GenerateSummary& summary, const TextRequest& request,
                    const engine::GenerationSettings& settings, const OpenedModel& model) {
  const files::ModelSource& source = model.source();
  Json json{{"model", source.name},
            {"prompt", request.prompt},
            {"prompt_ids", request.ids},
            {"ids", summary.ids},
            {"text", summary.text},
            {"ended_by", word_of(summary.ended_by)},
            {"temperature", settings.sampling.temperature},
            {"top_k", settings.sampling.top_k},
            {"top_p", settings.sampling.top_p},
            {"min_p", settings.sampling.min_p},
            {"repetition_penalty", settings.sampling.repetition_penalty},
            {"repetition_window", settings.sampling.repetition_window},
            {"seed", settings.sampling.seed},
            {"stop_ids", settings.stops},
            {"stop", request.sampling.stop},
            {"reused_tokens", summary.reused_tokens},
            {"random_weights", !source.has_weights()},
            {"prompt_seconds", summary.prompt_seconds},
            {"tokens_per_second", summary.tokens_per_second},
            {"device_limit", summary.device_limit},
            {"device_peak", summary.device_peak}};
  if (request.sampling.log_probs) {
    json["log_probabilities"] = to_json(summary.log_probabilities, model.tokenizer());
  }
  // A prompt from a command line may be any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TextRequest continuation(const Model& model, const std::string& prompt,
                         const SamplingOptions& sampling) {
  return {.ids = model.encode(prompt), .prompt = prompt, .answers = false, .sampling = sampling};
}

TextRequest answer(const Model& model, const std::vector<ChatMessage>& messages,
                   const SamplingOptions& sampling) {
  return {.ids = model.encode_chat(messages),
          .prompt = messages.empty() ? std::string() : messages.back().content,
          .answers = true,
          .sampling = sampling};
}

TextTokens text_tokens(const PromptLength& prompt, std::optional<std::int64_t> max_tokens,
                       const model::Config& config, std::int64_t positions) {
  if (max_tokens && *max_tokens < 1) {
    throw ConfigError(fmt::format("--max-tokens {}: expected at least 1", *max_tokens));
  }
  // Ids that the caller gave, or a template that renders to nothing.
  if (prompt.tokens < 1) {
    throw ConfigError(fmt::format("{}: the prompt has no tokens; give at least one", prompt.flag));
  }
  const std::int64_t most = std::min(positions, config.max_positions);
  const std::string_view whose =
      most < config.max_positions ? "the generator has" : "the model knows";
  // Said without adding to --max-tokens, which may be as large as an integer can be.
  const std::int64_t room = most - prompt.tokens;
  if (room < 1) {
    throw ConfigError(
        fmt::format("{}: the prompt has {} tokens, but {} {} positions only; give at most {}",
                    prompt.flag, prompt.tokens, whose, most, most - 1));
  }
  if (!max_tokens) {
    if (room >= kUsualTokens) return {.most = kUsualTokens, .note = {}};
    return {.most = room,
            .note = fmt::format("At most {} tokens are written: the prompt has {} and {} {} "
                                "positions",
                                room, prompt.tokens, whose, most)};
  }
  if (*max_tokens > room) {
    return {.most = room,
            .note = fmt::format("--max-tokens {} is cut to {}: the prompt has {} tokens and {} {} "
                                "positions",
                                *max_tokens, room, prompt.tokens, whose, most)};
  }
  return {.most = *max_tokens, .note = {}};
}

std::int64_t check_sequences(std::int64_t sequences) {
  if (sequences >= 1 && sequences <= kMostSequences) return sequences;
  throw ConfigError(fmt::format("--sequences {}: expected 1 to {}", sequences, kMostSequences));
}

void check_sampling(const SamplingOptions& sampling) {
  for (const std::string& stop : sampling.stop) {
    if (stop.empty()) throw ConfigError("--stop: expected a text, found an empty one");
  }
  if (sampling.log_probs && !(*sampling.log_probs >= 0 && *sampling.log_probs <= kMostLogProbs)) {
    throw ConfigError(fmt::format("--log-probs {}: expected 0 (the chosen token alone) to {}",
                                  *sampling.log_probs, kMostLogProbs));
  }
  if (sampling.max_tokens && *sampling.max_tokens < 1) {
    throw ConfigError(fmt::format("--max-tokens {}: expected at least 1", *sampling.max_tokens));
  }
}

TextTokens check_request(const TextRequest& request, const OpenedModel& model,
                         std::int64_t positions) {
  const model::Config& config = model.source().config;
  check_sampling(request.sampling);
  const TextTokens tokens = text_tokens({"--prompt", std::ssize(request.ids)},
                                        request.sampling.max_tokens, config, positions);
  // Ops pass over ids that no row of the embedding has.
  for (const std::int32_t id : request.ids) {
    if (id < 0 || id >= config.vocabulary) {
      throw ConfigError(
          fmt::format("prompt: token {} is not one of the model's {}", id, config.vocabulary));
    }
  }
  return tokens;
}

engine::GenerationSettings choose(const TextRequest& request, const OpenedModel& model,
                                  const std::optional<files::GenerationConfig>& stored) {
  return engine::choose_generation(stored, model.source(), request.sampling, model.tokenizer(),
                                   model.found_tokenizer().folder.empty());
}

}  // namespace ebb::api
