#include "api/text_request.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "engine/sampling.h"
#include "text/stop_strings.h"
#include "text/utf8_stream.h"

namespace ebb::api {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A preset is a shape without weights.
std::string warning_of(const files::ModelSource& source) {
  if (!source.has_weights()) {
    return fmt::format("The weights of {} are random, as nobody has trained them: so is the text",
                       source.name);
  }
  return source.head_note;
}

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

// A text as it grows: tokens in, what may be shown out.
class GrowingText {
 public:
  GrowingText(const text::Tokenizer& tokenizer, const TextRequest& request)
      : tokenizer_(tokenizer),
        show_special_(request.sampling.show_special),
        begins_(request.answers),
        stops_(request.sampling.stop) {}

  std::string feed(std::int32_t id) {
    // Models have a few ids more than their tokenizers, so that sizes are round.
    if (id >= tokenizer_.vocabulary()) return {};
    if (!show_special_ && tokenizer_.is_special(id)) return {};
    // An answer begins a text, everything else continues one.
    const bool begins = std::exchange(begins_, false);
    return stops_.feed(
        characters_.feed(begins ? tokenizer_.decode({&id, 1}) : tokenizer_.decode_next({&id, 1})));
  }
  // A character that was cut off by the end of the text still comes, as a replacement.
  std::string finish() {
    std::string rest = stops_.feed(characters_.finish());
    return rest + stops_.finish();
  }
  bool ended() const { return stops_.ended(); }

 private:
  const text::Tokenizer& tokenizer_;
  bool show_special_;
  bool begins_;
  text::Utf8Stream characters_;
  text::StopStrings stops_;
};

TokenLogProbabilities log_probabilities(engine::Sampler& sampler, std::span<const float> logits,
                                        std::int32_t chosen,
                                        std::vector<engine::LogProb>& likeliest) {
  const double sum = sampler.log_probs(logits, likeliest);
  TokenLogProbabilities token{
      .chosen = {chosen, static_cast<double>(logits[to_size(chosen)]) - sum}, .likeliest = {}};
  for (const engine::LogProb& other : likeliest) token.likeliest.push_back({other.id, other.value});
  return token;
}

}  // namespace

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

GenerateSummary generate_text(CachedSequence& sequence, PrefixReuse reuse, const OpenedModel& model,
                              const TextRequest& request, const TextTokens& tokens,
                              const engine::GenerationSettings& settings, const TextSink& sink,
                              const std::stop_token& stop) {
  GenerateSummary summary;
  summary.prompt_tokens = std::ssize(request.ids);
  summary.settings = settings.explanation;
  summary.warning = warning_of(model.source());
  summary.note = tokens.note;
  engine::Sampler sampler(settings.sampling, to_size(model.source().config.vocabulary));
  std::vector<engine::LogProb> likeliest(
      to_size(std::min(request.sampling.log_probs.value_or(0), model.source().config.vocabulary)));
  auto start = std::chrono::steady_clock::now();
  summary.reused_tokens = sequence.begin(request.ids, reuse);
  std::span<const float> logits =
      sequence.advance(std::span(request.ids).subspan(to_size(summary.reused_tokens)), stop);
  summary.prompt_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  GrowingText text(model.tokenizer(), request);
  // Becomes false for good when the sink or the stop token says so.
  bool wanted = !stop.stop_requested();
  const auto show = [&](const std::string& piece) {
    summary.text += piece;
    if (!piece.empty() && wanted && sink) wanted = sink(piece);
    wanted = wanted && !stop.stop_requested();
  };
  while (wanted && !text.ended() && summary.tokens < tokens.most) {
    // The draw is numbered by its position in the sequence, so that equal prompts and seeds give
    // equal texts whatever was generated before.
    const std::int32_t next =
        sampler.sample(logits, sequence.tokens(), std::ssize(sequence.tokens()));
    if (std::find(settings.stops.begin(), settings.stops.end(), next) != settings.stops.end()) {
      summary.ended_by = EndedBy::stop;
      break;
    }
    if (request.sampling.log_probs) {
      summary.log_probabilities.push_back(log_probabilities(sampler, logits, next, likeliest));
    }
    summary.ids.push_back(next);
    ++summary.tokens;
    show(text.feed(next));
    if (text.ended()) summary.ended_by = EndedBy::stop_text;
    // Behind the last token nobody wants logits: a run of the model is saved.
    if (wanted && !text.ended() && summary.tokens < tokens.most) {
      logits = sequence.advance({&next, 1});
    }
  }
  if (!wanted) summary.ended_by = EndedBy::caller;
  show(text.finish());
  const double seconds = seconds_since(start);
  summary.tokens_per_second = seconds > 0 ? static_cast<double>(summary.tokens) / seconds : 0;
  return summary;
}

}  // namespace ebb::api
