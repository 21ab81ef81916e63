// The families there are.
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/error.h"
#include "model/families/family.h"

namespace ebb::model {
namespace {

constexpr std::array<const Family*, 6> kFamilies = {&kLlama, &kMistral, &kQwen2,
                                                    &kQwen3, &kGpt2,    &kGemma};

}  // namespace

std::span<const Family* const> families() { return kFamilies; }

const Family* find_family(std::string_view name) {
  for (const Family* known : kFamilies) {
    if (known->name == name) return known;
  }
  return nullptr;
}

const Family& family(std::string_view name) {
  const Family* found = find_family(name);
  if (found == nullptr) {
    throw ConfigError(
        fmt::format("there is no family of models '{}'; there are {}", name, family_names()));
  }
  return *found;
}

std::string family_names() {
  std::vector<std::string_view> names;
  for (const Family* known : kFamilies) names.push_back(known->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace ebb::model
