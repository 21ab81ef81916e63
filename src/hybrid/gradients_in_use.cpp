#include "hybrid/gradients_in_use.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::hybrid {
namespace {

std::uintptr_t address_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

}  // namespace

void GradientsInUse::check_apart(const Parameter& of, const void* gradient) const {
  const std::uintptr_t begin = address_of(gradient);
  const std::uintptr_t end = begin + static_cast<std::uintptr_t>(of.gradient_bytes());
  // As none of them overlap, the last one that begins before the end also ends last.
  auto found = by_begin_.lower_bound(end);
  if (found == by_begin_.begin()) return;
  const auto& [other_begin, other] = *--found;
  if (other_begin + static_cast<std::uintptr_t>(other->gradient_bytes()) <= begin) return;
  throw ConfigError(fmt::format(
      "the gradient of {} and the gradient of {} share memory, which the latter needs until "
      "wait_for_weight(): give each its own",
      in_quotes(of.name), in_quotes(other->name)));
}

void GradientsInUse::add(const Parameter& parameter) {
  by_begin_.emplace(address_of(parameter.gradient), &parameter);
}

void GradientsInUse::remove(const Parameter& parameter) {
  const auto found = by_begin_.find(address_of(parameter.gradient));
  // The memory may be another's by now.
  if (found != by_begin_.end() && found->second == &parameter) by_begin_.erase(found);
}

}  // namespace ebb::hybrid
