#include "api/text_request.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "ebb/error.h"
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
    case EndedBy::caller: return "caller";
  }
  return "length";
}

}  // namespace

std::string to_json(const GenerateSummary& summary, const TextRequest& request,
                    const engine::GenerationSettings& settings, const OpenedModel& model) {
  const files::ModelSource& source = model.source();
  const Json json{{"model", source.name},
                  {"prompt", request.prompt},
                  {"prompt_ids", request.ids},
                  {"ids", summary.ids},
                  {"text", summary.text},
                  {"ended_by", word_of(summary.ended_by)},
                  {"temperature", settings.sampling.temperature},
                  {"top_k", settings.sampling.top_k},
                  {"top_p", settings.sampling.top_p},
                  {"seed", settings.sampling.seed},
                  {"stop_ids", settings.stops},
                  {"random_weights", !source.has_weights()},
                  {"prompt_seconds", summary.prompt_seconds},
                  {"tokens_per_second", summary.tokens_per_second},
                  {"device_limit", summary.device_limit},
                  {"device_peak", summary.device_peak}};
  // A prompt from a command line may be any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

TextRequest continuation(const Model& model, const std::string& prompt,
                         const SamplingOptions& sampling) {
  return {.ids = model.encode(prompt), .prompt = prompt, .answers = false, .sampling = sampling};
}

TextRequest answer(const Model& model, const std::vector<ChatMessage>& messages,
                   const SamplingOptions& sampling) {
  return {.ids = opened(model).tokenizer().encode(model.render_chat(messages)),
          .prompt = messages.empty() ? std::string() : messages.back().content,
          .answers = true,
          .sampling = sampling};
}

void check_length(const PromptLength& prompt, std::int64_t max_tokens, const model::Config& config,
                  std::int64_t positions) {
  if (max_tokens < 1) {
    throw ConfigError(fmt::format("--max-tokens {}: expected at least 1", max_tokens));
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
  if (max_tokens > room) {
    throw ConfigError(
        fmt::format("--max-tokens {}: the prompt has {} tokens and {} {} positions only; give at "
                    "most {}",
                    max_tokens, prompt.tokens, whose, most, room));
  }
}

void check_request(const TextRequest& request, const OpenedModel& model, std::int64_t positions) {
  const model::Config& config = model.source().config;
  check_length({"--prompt", std::ssize(request.ids)}, request.sampling.max_tokens, config,
               positions);
  // Ops pass over ids that no row of the embedding has.
  for (const std::int32_t id : request.ids) {
    if (id < 0 || id >= config.vocabulary) {
      throw ConfigError(
          fmt::format("prompt: token {} is not one of the model's {}", id, config.vocabulary));
    }
  }
}

engine::GenerationSettings choose(const TextRequest& request, const OpenedModel& model,
                                  const std::optional<files::GenerationConfig>& stored) {
  return engine::choose_generation(stored, model.source(), request.sampling, model.tokenizer(),
                                   model.found_tokenizer().folder.empty());
}

GenerateSummary generate_text(engine::Generator& generator, const OpenedModel& model,
                              const TextRequest& request,
                              const engine::GenerationSettings& settings, const TextSink& sink,
                              const std::stop_token& stop) {
  const text::Tokenizer& tokenizer = model.tokenizer();
  const std::int64_t max_tokens = request.sampling.max_tokens;
  GenerateSummary summary;
  summary.prompt_tokens = static_cast<std::int64_t>(request.ids.size());
  summary.settings = settings.explanation;
  summary.warning = warning_of(model.source());
  generator.reset();
  auto start = std::chrono::steady_clock::now();
  std::span<const float> logits = generator.advance(request.ids);
  summary.prompt_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  text::Utf8Stream characters;
  // Becomes false for good when the sink or the stop token says so.
  bool wanted = !stop.stop_requested();
  const auto show = [&](const std::string& text) {
    summary.text += text;
    if (!text.empty() && wanted && sink) wanted = sink(text);
    wanted = wanted && !stop.stop_requested();
  };
  while (wanted && summary.tokens < max_tokens) {
    // The draw is numbered by its position in the sequence, so that equal prompts and seeds give
    // equal texts whatever was generated before.
    const std::int32_t next = engine::sample(logits, settings.sampling, generator.length());
    if (std::find(settings.stops.begin(), settings.stops.end(), next) != settings.stops.end()) {
      summary.ended_by = EndedBy::stop;
      break;
    }
    summary.ids.push_back(next);
    ++summary.tokens;
    // Models have a few ids more than their tokenizers, so that sizes are round.
    const bool known = next < tokenizer.vocabulary();
    // An answer begins a text, everything else continues one.
    const bool begins = request.answers && summary.tokens == 1;
    show(!known ? std::string()
                : characters.feed(begins ? tokenizer.decode({&next, 1})
                                         : tokenizer.decode_next({&next, 1})));
    // Behind the last token nobody wants logits: a run of the model is saved.
    if (wanted && summary.tokens < max_tokens) logits = generator.advance({&next, 1});
  }
  // A character that was cut off by the end of the text still comes, as a replacement.
  show(characters.finish());
  if (!wanted) summary.ended_by = EndedBy::caller;
  const double seconds = seconds_since(start);
  summary.tokens_per_second = seconds > 0 ? static_cast<double>(summary.tokens) / seconds : 0;
  summary.device_peak = generator.measured_peak();
  return summary;
}

}  // namespace ebb::api
