#include "engine/generation_settings.h"

#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/error.h"
#include "engine/companions.h"

namespace ebb::engine {
namespace {

// Ebb's own, where nobody says anything.
constexpr Sampling kDefaults{.temperature = 0.8, .top_k = 0, .top_p = 1.0, .seed = 0};

// Reads fields of one JSON object; null counts as not there.
class Fields {
 public:
  Fields(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) throw FormatError(where_ + ": expected a JSON object");
  }

  std::optional<double> number(const char* key, double most) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const double number = value->is_number() ? value->get<double>() : -1;
    if (!(number >= 0 && number <= most)) wrong(key, fmt::format("a number from 0 to {}", most));
    return number;
  }
  std::optional<std::int64_t> integer(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const std::int64_t number = value->is_number_integer() ? value->get<std::int64_t>() : -1;
    if (number < 0) wrong(key, "a whole number from 0");
    return number;
  }
  bool boolean(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) wrong(key, "true or false");
    return value->get<bool>();
  }
  std::vector<std::int32_t> ids(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    constexpr std::size_t most = 1024;
    std::vector<std::int32_t> ids;
    for (const Json& id : value->is_array() ? *value : Json::array({*value})) {
      const std::int64_t number = id.is_number_integer() ? id.get<std::int64_t>() : -1;
      const bool good = number >= 0 && number <= std::numeric_limits<std::int32_t>::max();
      if (!good || ids.size() == most) wrong(key, "a token's id or a list of them");
      ids.push_back(static_cast<std::int32_t>(number));
    }
    return ids;
  }

 private:
  const Json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }

  [[noreturn]] void wrong(const char* key, std::string_view expected) const {
    throw FormatError(fmt::format("{}: '{}' should be {}, found {}; mend it or leave it out",
                                  where_, key, expected, json_.at(key).dump().substr(0, 80)));
  }

  const Json& json_;
  std::string where_;
};

// One choice among a flag, the file and the default; notes where it came from.
template <class T>
T choose(const std::optional<T>& flag, const std::optional<T>& stored, T otherwise,
         std::string_view name, std::string& explanation) {
  const T value = flag ? *flag : stored.value_or(otherwise);
  explanation += fmt::format("{}{} {} ({})", explanation.empty() ? "" : ", ", name, value,
                             flag     ? "as given"
                             : stored ? kGenerationConfigName
                                      : "default");
  return value;
}

std::vector<std::int32_t> choose_stops(const ModelSource& source,
                                       const std::optional<GenerationConfig>& stored,
                                       const text::Tokenizer& tokenizer, bool bytes,
                                       std::string& explanation) {
  std::vector<std::int32_t> stops;
  std::string_view from = kGenerationConfigName;
  if (stored && !bytes) stops = stored->stops;
  if (stops.empty() && !bytes && source.stored_config.is_object()) {
    from = "config.json";
    stops = Fields(source.stored_config, (source.folder / from).string()).ids("eos_token_id");
  }
  if (stops.empty()) {
    from = "tokenizer";
    stops = {tokenizer.end_of_text()};
  }
  explanation += fmt::format(", ends at {} ({})", fmt::join(stops, " or "), from);
  return stops;
}

}  // namespace

std::optional<GenerationConfig> read_generation_config(io::FileSystem& files,
                                                       const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kGenerationConfigName;
  if (folder.empty() || !files.exists(path)) return std::nullopt;
  const Json json = read_json(files, path);
  const Fields fields(json, path.string());
  return GenerationConfig{.stops = fields.ids("eos_token_id"),
                          .sample = fields.boolean("do_sample"),
                          .temperature = fields.number("temperature", 1000),
                          .top_k = fields.integer("top_k"),
                          .top_p = fields.number("top_p", 1)};
}

GenerationSettings choose_generation(io::FileSystem& files, const ModelSource& source,
                                     const GenerateOptions& options,
                                     const text::Tokenizer& tokenizer, bool bytes) {
  std::optional<GenerationConfig> stored = read_generation_config(files, source.folder);
  // Without do_sample others take the likeliest token. Who gives a flag of sampling wants to draw.
  const bool draws = options.temperature || options.top_k || options.top_p;
  if (stored && !stored->sample && !draws) stored->temperature = 0.0;
  // 0 stands for "not used" there, as 1 does.
  if (stored && stored->top_p == 0.0) stored->top_p.reset();
  const GenerationConfig defaults;
  const GenerationConfig& file = stored ? *stored : defaults;
  GenerationSettings chosen;
  std::string& why = chosen.explanation;
  chosen.sampling.temperature =
      choose(options.temperature, file.temperature, kDefaults.temperature, "temperature", why);
  chosen.sampling.seed = options.seed;
  if (chosen.sampling.temperature > 0) {
    chosen.sampling.top_k = choose(options.top_k, file.top_k, kDefaults.top_k, "top-k", why);
    chosen.sampling.top_p = choose(options.top_p, file.top_p, kDefaults.top_p, "top-p", why);
  }
  // Flags are checked even where they do not matter.
  validate({.temperature = chosen.sampling.temperature,
            .top_k = options.top_k.value_or(chosen.sampling.top_k),
            .top_p = options.top_p.value_or(chosen.sampling.top_p),
            .seed = options.seed});
  chosen.stops = choose_stops(source, stored, tokenizer, bytes, why);
  return chosen;
}

}  // namespace ebb::engine
