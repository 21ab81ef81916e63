#include "kernels/cpu/isa.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "ebb/error.h"

namespace ebb::kernels {
namespace {

std::atomic<bool>& fetching() {
#if HWY_ARCH_X86
  static std::atomic<bool> pays = __builtin_cpu_is("intel") != 0;
#else
  static std::atomic<bool> pays = false;
#endif
  return pays;
}

std::string name_of(std::int64_t target) {
  std::string name = hwy::TargetName(target);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return name;
}

}  // namespace

std::vector<std::string> isa_levels() {
  std::vector<std::string> names;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.push_back(name_of(target));
  }
  return names;
}

std::string isa_in_use() { return isa_levels().front(); }

void use_isa(std::string_view name) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name_of(target) != name) continue;
    // Better levels have lower bits.
    const std::int64_t allowed = hwy::SupportedTargets() & ~(target - 1);
    hwy::SetSupportedTargetsForTest(allowed);
    hwy::GetChosenTarget().Update(allowed);
    return;
  }
  throw ConfigError(
      fmt::format("EBB_ISA={}: this processor has {}", name, fmt::join(isa_levels(), ", ")));
}

bool fetching_pays() { return fetching().load(std::memory_order_relaxed); }
void set_fetching(bool pays) { fetching() = pays; }

void use_isa_of_environment() {
  if (const char* name = std::getenv("EBB_ISA"); name != nullptr && *name != '\0') use_isa(name);
}

}  // namespace ebb::kernels
