#include "files/model/generation_config.h"

#include <limits>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"
#include "files/json_file.h"

namespace ebb::files {
namespace {

constexpr const char* kStopsKey = "eos_token_id";

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
                                  where_, key, expected, in_quotes(json_.at(key).dump())));
  }

  const Json& json_;
  std::string where_;
};

}  // namespace

std::optional<GenerationConfig> read_generation_config(io::FileSystem& files,
                                                       const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kGenerationConfigName;
  if (folder.empty() || !files.exists(path)) return std::nullopt;
  const Json json = read_json(files, path);
  const Fields fields(json, path.string());
  return GenerationConfig{.stops = fields.ids(kStopsKey),
                          .sample = fields.boolean("do_sample"),
                          .temperature = fields.number("temperature", 1000),
                          .top_k = fields.integer("top_k"),
                          .top_p = fields.number("top_p", 1),
                          .min_p = fields.number("min_p", 1),
                          .repetition_penalty = fields.number("repetition_penalty", 1000)};
}

std::vector<std::int32_t> read_stops(const Json& json, const std::string& where) {
  return Fields(json, where).ids(kStopsKey);
}

}  // namespace ebb::files
