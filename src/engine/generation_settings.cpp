#include "engine/generation_settings.h"

#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/error.h"

namespace ebb::engine {
namespace {

// Ebb's own, where nobody says anything.
constexpr Sampling kDefaults{.temperature = 0.8};

// One choice among a flag, the file and the default; notes where it came from.
template <class T>
T choose(const std::optional<T>& flag, const std::optional<T>& stored, T otherwise,
         std::string_view name, std::string& explanation) {
  const T value = flag ? *flag : stored.value_or(otherwise);
  explanation += fmt::format("{}{} {} ({})", explanation.empty() ? "" : ", ", name, value,
                             flag     ? "as given"
                             : stored ? files::kGenerationConfigName
                                      : "default");
  return value;
}

std::vector<std::int32_t> choose_stops(const files::ModelSource& source,
                                       const std::optional<files::GenerationConfig>& stored,
                                       const text::Tokenizer& tokenizer, bool bytes,
                                       std::string& explanation) {
  std::vector<std::int32_t> stops;
  std::string_view from = files::kGenerationConfigName;
  if (stored && !bytes) stops = stored->stops;
  if (stops.empty() && !bytes && source.stored_config.is_object()) {
    const bool gguf = !source.file.empty();
    from = gguf ? "GGUF" : "config.json";
    stops = files::read_stops(source.stored_config,
                              (gguf ? source.file : source.folder / from).string());
  }
  if (stops.empty()) {
    from = "tokenizer";
    stops = {tokenizer.end_of_text()};
  }
  explanation += fmt::format(", ends at {} ({})", fmt::join(stops, " or "), from);
  return stops;
}

}  // namespace

GenerationSettings choose_generation(std::optional<files::GenerationConfig> stored,
                                     const files::ModelSource& source,
                                     const SamplingOptions& options,
                                     const text::Tokenizer& tokenizer, bool bytes) {
  // Without do_sample others take the likeliest token. A user who gives a flag of sampling wants to
  // draw.
  const bool draws = options.temperature || options.top_k || options.top_p || options.min_p;
  if (stored && !stored->sample && !draws) stored->temperature = 0.0;
  // 0 stands for "not used" there, as 1 does.
  if (stored && stored->top_p == 0.0) stored->top_p.reset();
  if (stored && stored->repetition_penalty == 0.0) stored->repetition_penalty.reset();
  const files::GenerationConfig defaults;
  const files::GenerationConfig& file = stored ? *stored : defaults;
  GenerationSettings chosen;
  std::string& why = chosen.explanation;
  chosen.sampling.temperature =
      choose(options.temperature, file.temperature, kDefaults.temperature, "temperature", why);
  chosen.sampling.seed = options.seed;
  if (chosen.sampling.temperature > 0) {
    chosen.sampling.top_k = choose(options.top_k, file.top_k, kDefaults.top_k, "top-k", why);
    chosen.sampling.top_p = choose(options.top_p, file.top_p, kDefaults.top_p, "top-p", why);
    // Off unless somebody asks, and then there is nothing to say of it.
    if (options.min_p || file.min_p) {
      chosen.sampling.min_p = choose(options.min_p, file.min_p, kDefaults.min_p, "min-p", why);
    }
  }
  // It changes which token is the likeliest, too.
  if (options.repetition_penalty || file.repetition_penalty) {
    chosen.sampling.repetition_penalty =
        choose(options.repetition_penalty, file.repetition_penalty, kDefaults.repetition_penalty,
               "repetition-penalty", why);
    chosen.sampling.repetition_window = options.repetition_window;
  }
  // Flags are checked even where they do not matter.
  validate({.repetition_penalty = chosen.sampling.repetition_penalty,
            .repetition_window = options.repetition_window,
            .temperature = chosen.sampling.temperature,
            .top_k = options.top_k.value_or(chosen.sampling.top_k),
            .top_p = options.top_p.value_or(chosen.sampling.top_p),
            .min_p = options.min_p.value_or(chosen.sampling.min_p),
            .seed = options.seed});
  chosen.stops = choose_stops(source, stored, tokenizer, bytes, why);
  return chosen;
}

}  // namespace ebb::engine
