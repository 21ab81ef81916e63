#include "ebb/generate.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/generation_settings.h"
#include "engine/generator.h"
#include "engine/model_tokenizer.h"
#include "engine/settings.h"
#include "io/posix_file_system.h"
#include "text/utf8_stream.h"

namespace ebb {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A template writes out whatever the model wants before a text.
std::vector<std::int32_t> encode_chat(const GenerateOptions& options,
                                      const engine::ModelTokenizer& found) {
  if (!found.parts.chat) {
    throw ConfigError(
        fmt::format("--chat: the model {} brings no chat template (chat_template.jinja, or "
                    "chat_template in tokenizer_config.json); leave --chat out, or give "
                    "--tokenizer FOLDER with one",
                    options.model));
  }
  Json messages = Json::array();
  if (!options.system.empty()) {
    messages.push_back({{"role", "system"}, {"content", options.system}});
  }
  messages.push_back({{"role", "user"}, {"content", options.prompt}});
  return found.tokenizer().encode(
      found.parts.chat->render(messages, found.parts.special_tokens, true));
}

std::vector<std::int32_t> encode_prompt(const GenerateOptions& options,
                                        const engine::ModelTokenizer& found) {
  if (options.chat) return encode_chat(options, found);
  if (!options.system.empty()) {
    throw ConfigError("--system: it goes through the chat template; add --chat");
  }
  std::vector<std::int32_t> tokens = found.tokenizer().prefix();
  const std::vector<std::int32_t> text = found.tokenizer().encode(options.prompt);
  tokens.insert(tokens.end(), text.begin(), text.end());
  // An empty prompt starts where every text starts: behind the end of another.
  if (tokens.empty()) tokens.push_back(found.tokenizer().end_of_text());
  return tokens;
}

void check_room(const GenerateOptions& options, std::size_t prompt, const model::Config& config) {
  if (options.max_tokens < 1) {
    throw ConfigError(fmt::format("--max-tokens {}: expected at least 1", options.max_tokens));
  }
  // Said without adding to --max-tokens, which may be as large as an integer can be.
  const std::int64_t room = config.max_positions - static_cast<std::int64_t>(prompt);
  if (room < 1) {
    throw ConfigError(fmt::format(
        "--prompt: it has {} tokens, but the model knows {} positions only; give at most {}",
        prompt, config.max_positions, config.max_positions - 1));
  }
  if (options.max_tokens > room) {
    throw ConfigError(
        fmt::format("--max-tokens {}: the prompt has {} tokens and the model knows {} positions "
                    "only; give at most {}",
                    options.max_tokens, prompt, config.max_positions, room));
  }
}

// A preset is a shape without weights.
std::string warning_of(const engine::ModelSource& source) {
  if (source.folder.empty()) {
    return fmt::format("The weights of {} are random, as nobody has trained them: so is the text",
                       source.name);
  }
  return source.head_note;
}

// What came out, beside the numbers.
struct Output {
  std::vector<std::int32_t> ids;  // without the one that ended the text
  std::string text;
  std::string ended_by = "length";
};

std::string describe(const GenerateOptions& options, const GenerateSummary& summary,
                     const engine::GenerationSettings& settings,
                     const std::vector<std::int32_t>& prompt, const Output& output,
                     bool random_weights) {
  const Json json{{"model", options.model},
                  {"prompt", options.prompt},
                  {"prompt_ids", prompt},
                  {"ids", output.ids},
                  {"text", output.text},
                  {"ended_by", output.ended_by},
                  {"temperature", settings.sampling.temperature},
                  {"top_k", settings.sampling.top_k},
                  {"top_p", settings.sampling.top_p},
                  {"seed", settings.sampling.seed},
                  {"stop_ids", settings.stops},
                  {"random_weights", random_weights},
                  {"prompt_seconds", summary.prompt_seconds},
                  {"tokens_per_second", summary.tokens_per_second},
                  {"device_limit", summary.device_limit},
                  {"device_peak", summary.device_peak}};
  // A prompt from a command line may be any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

GenerateSummary generate(const GenerateOptions& options,
                         const std::function<bool(std::string_view piece)>& piece) {
  io::PosixFileSystem files;
  const int threads = engine::check_threads(options.threads);
  const engine::ModelSource source = engine::find_model(files, options.model);
  engine::Runtime runtime(options.device, threads);
  const plan::Limits limits =
      engine::limits_within(runtime.memory(), options.device_memory, options.host_memory);
  engine::ModelTokenizer found =
      engine::find_tokenizer(source, options.tokenizer, limits[plan::Tier::host]);
  Bytes held = found.memory_bytes();
  if (found.parts.chat && options.chat) {
    const Bytes rendering = engine::rendering_memory(limits[plan::Tier::host], 1);
    found.parts.chat->limit_memory(static_cast<std::size_t>(rendering));
    held += rendering;
  }
  const text::Tokenizer& tokenizer = found.tokenizer();
  const engine::GenerationSettings settings =
      engine::choose_generation(files, source, options, tokenizer, found.folder.empty());
  const std::vector<std::int32_t> prompt = encode_prompt(options, found);
  check_room(options, prompt.size(), source.config);
  if (options.verify) engine::verify_model(files, source);
  const DType dtype = options.dtype == "auto" ? engine::stored_dtype(files, source)
                                              : engine::parse_dtype(options.dtype, "--dtype");
  engine::Generator generator(runtime, files, source, dtype,
                              static_cast<std::int64_t>(prompt.size()) + options.max_tokens, limits,
                              held);

  GenerateSummary summary{.prompt_tokens = static_cast<std::int64_t>(prompt.size()),
                          .settings = settings.explanation,
                          .warning = warning_of(source),
                          .device_limit = limits[plan::Tier::device],
                          .json = {}};
  auto start = std::chrono::steady_clock::now();
  std::span<const float> logits = generator.advance(prompt);
  summary.prompt_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  text::Utf8Stream characters;
  Output output;
  bool wanted = true;
  const auto show = [&](const std::string& text) {
    output.text += text;
    if (!text.empty() && wanted) wanted = piece(text);
  };
  while (wanted && summary.tokens < options.max_tokens) {
    const std::int32_t next = engine::sample(logits, settings.sampling, generator.length());
    if (std::find(settings.stops.begin(), settings.stops.end(), next) != settings.stops.end()) {
      output.ended_by = "stop";
      break;
    }
    output.ids.push_back(next);
    ++summary.tokens;
    // Models have a few ids more than their tokenizers, so that sizes are round.
    if (next < tokenizer.vocabulary()) {
      // An answer begins a text, everything else continues one.
      const bool begins = options.chat && summary.tokens == 1;
      show(characters.feed(begins ? tokenizer.decode({&next, 1})
                                  : tokenizer.decode_next({&next, 1})));
    }
    if (summary.tokens < options.max_tokens) logits = generator.advance({&next, 1});
  }
  show(characters.finish());
  if (!wanted) output.ended_by = "caller";
  const double seconds = seconds_since(start);
  summary.tokens_per_second = seconds > 0 ? static_cast<double>(summary.tokens) / seconds : 0;
  summary.device_peak = generator.measured_peak();
  summary.json = describe(options, summary, settings, prompt, output, source.folder.empty());
  return summary;
}

}  // namespace ebb
