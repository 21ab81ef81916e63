#include "ebb/generate.h"

#include <chrono>
#include <vector>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/generator.h"
#include "engine/sampling.h"
#include "engine/settings.h"
#include "io/posix_file_system.h"
#include "text/byte_tokenizer.h"
#include "text/utf8_stream.h"

namespace ebb {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<std::int32_t> encode_prompt(const GenerateOptions& options,
                                        const text::Tokenizer& tokenizer,
                                        const model::Config& config) {
  if (options.max_tokens < 1) {
    throw ConfigError(fmt::format("--max-tokens {}: expected at least 1", options.max_tokens));
  }
  std::vector<std::int32_t> tokens = tokenizer.encode(options.prompt);
  // An empty prompt starts where every text starts: behind the end of another.
  if (tokens.empty()) tokens.push_back(tokenizer.end_of_text());
  for (const std::int32_t id : tokens) {
    if (id >= config.vocabulary) {
      throw ConfigError(fmt::format("--prompt: token {} is outside the model's vocabulary of {}",
                                    id, config.vocabulary));
    }
  }
  // Said without adding to --max-tokens, which may be as large as an integer can be.
  const std::int64_t room = config.max_positions - static_cast<std::int64_t>(tokens.size());
  if (room < 1) {
    throw ConfigError(fmt::format(
        "--prompt: it has {} tokens, but the model knows {} positions only; give at most {}",
        tokens.size(), config.max_positions, config.max_positions - 1));
  }
  if (options.max_tokens > room) {
    throw ConfigError(
        fmt::format("--max-tokens {}: the prompt has {} tokens and the model knows {} positions "
                    "only; give at most {}",
                    options.max_tokens, tokens.size(), config.max_positions, room));
  }
  return tokens;
}

}  // namespace

GenerateSummary generate(const GenerateOptions& options,
                         const std::function<bool(std::string_view piece)>& piece) {
  const engine::Sampling sampling{.temperature = options.temperature,
                                  .top_k = options.top_k,
                                  .top_p = options.top_p,
                                  .seed = options.seed};
  engine::validate(sampling);
  io::PosixFileSystem files;
  engine::Runtime runtime(options.device, engine::check_threads(options.threads));
  const engine::ModelSource source = engine::find_model(files, options.model);
  const text::ByteTokenizer tokenizer;
  const std::vector<std::int32_t> prompt = encode_prompt(options, tokenizer, source.config);
  const plan::Limits limits{
      .device = options.device_memory.value_or(runtime.device().device_memory()),
      .host = options.host_memory.value_or(runtime.device().host_memory())};
  const DType dtype = options.dtype == "auto" ? engine::stored_dtype(files, source)
                                              : engine::parse_dtype(options.dtype, "--dtype");
  engine::Generator generator(runtime, files, source, dtype,
                              static_cast<std::int64_t>(prompt.size()) + options.max_tokens,
                              limits);

  GenerateSummary summary{.prompt_tokens = static_cast<std::int64_t>(prompt.size()),
                          .device_limit = limits.device};
  auto start = std::chrono::steady_clock::now();
  std::span<const float> logits = generator.advance(prompt);
  summary.prompt_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  text::Utf8Stream characters;
  bool wanted = true;
  while (wanted && summary.tokens < options.max_tokens) {
    const std::int32_t next = engine::sample(logits, sampling, generator.length());
    if (next == tokenizer.end_of_text()) break;
    ++summary.tokens;
    if (next < tokenizer.vocabulary()) {
      const std::string text = characters.feed(tokenizer.decode({&next, 1}));
      if (!text.empty()) wanted = piece(text);
    }
    if (summary.tokens < options.max_tokens) logits = generator.advance({&next, 1});
  }
  if (const std::string rest = characters.finish(); wanted && !rest.empty()) piece(rest);
  const double seconds = seconds_since(start);
  summary.tokens_per_second = seconds > 0 ? static_cast<double>(summary.tokens) / seconds : 0;
  summary.device_peak = generator.measured_peak();
  return summary;
}

}  // namespace ebb
