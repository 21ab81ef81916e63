// generation_config.json: how a model's makers want it to generate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "io/file_system.h"

namespace ebb::files {

inline constexpr std::string_view kGenerationConfigName = "generation_config.json";

// The fields of generation_config.json that Ebb follows.
struct GenerationConfig {
  std::vector<std::int32_t> stops;  // eos_token_id: a number or a list
  bool sample = false;              // do_sample; without it the likeliest token is taken
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
};

// Nothing where the folder has no such file. Throws FormatError that names the field.
std::optional<GenerationConfig> read_generation_config(io::FileSystem& files,
                                                       const std::filesystem::path& folder);

// The ids that end a text, of any object with "eos_token_id", such as config.json; none where it
// has none. Throws FormatError that names `where`.
std::vector<std::int32_t> read_stops(const Json& json, const std::string& where);

}  // namespace ebb::files
