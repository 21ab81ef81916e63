#include "engine/gemm_cache_file.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "io/text_file.h"

namespace ebb::engine {

Json read_gemm_cache_file(io::FileSystem& files, const std::filesystem::path& path,
                          const Note& note) {
  constexpr Bytes most = 16 * kMiB;
  if (!files.exists(path)) return Json::object();
  try {
    Json all = parse_json(io::read_text(files, path, most), path.string());
    if (all.is_object()) return all;
    note(fmt::format("{}: expected choices of matrix algorithms, found other JSON; made anew",
                     path.string()));
  } catch (const Error& error) {
    note(fmt::format("{}; made anew", error.what()));
  }
  return Json::object();
}

std::map<std::string, std::string> choices_of(const Json& json) {
  std::map<std::string, std::string> choices;
  if (!json.is_object()) return choices;
  for (const auto& [product, choice] : json.items()) {
    if (choice.is_string()) choices.emplace(product, choice.get<std::string>());
  }
  return choices;
}

}  // namespace ebb::engine
