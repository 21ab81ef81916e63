#include "report/picture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/printable.h"

namespace ebb::report {
namespace {

// More than a picture of any program has.
constexpr std::size_t kMostRows = 16;  // lanes, tiers, purposes
constexpr std::size_t kMostSpans = 20'000;
constexpr std::size_t kMostMoments = 10'000;
constexpr std::size_t kMostTexts = 100'000;
constexpr std::size_t kMostTextBytes = 200;

const Json& at(const Json& json, const char* key) {
  static const Json nothing;
  if (!json.is_object()) return nothing;
  const auto found = json.find(key);
  return found == json.end() ? nothing : *found;
}

// An object or a list with at most so many members; else an empty list.
const Json& list_at(const Json& json, const char* key, std::size_t most) {
  static const Json empty = Json::array();
  const Json& list = at(json, key);
  return list.is_array() && list.size() <= most ? list : empty;
}

Json texts(const Json& json, const char* key, std::size_t most) {
  Json checked = Json::array();
  for (const Json& text : list_at(json, key, most)) {
    checked.push_back(text.is_string()
                          ? printable(text.get_ref<const std::string&>(), kMostTextBytes)
                          : std::string("?"));
  }
  return checked;
}

// Five counts: start, ticks, name, kind, joined. Empty where it is no span.
Json span(const Json& given, std::size_t names, std::size_t kinds) {
  if (!given.is_array() || given.size() < 4 || given.size() > 5) return {};
  for (const Json& part : given) {
    if (!count_of(part)) return {};
  }
  const bool known = given[2].get<std::uint64_t>() < names && given[3].get<std::uint64_t>() < kinds;
  return known ? given : Json();
}

Json lanes(const Json& step, std::size_t names, std::size_t kinds) {
  Json checked = Json::array();
  for (const Json& lane : list_at(step, "lanes", kMostRows)) {
    Json spans = Json::array();
    for (const Json& one : list_at(lane, "spans", kMostSpans)) {
      if (Json good = span(one, names, kinds); !good.is_null()) spans.push_back(std::move(good));
    }
    checked.push_back({{"name", text_at(lane, "name", kMostTextBytes)},
                       {"busy_seconds", number_of(at(lane, "busy_seconds")).value_or(0)},
                       {"spans", std::move(spans)}});
  }
  return checked;
}

// All counts, and as many as there should be; else null.
Json counts(const Json& given, std::size_t count) {
  if (!given.is_array() || given.size() != count) return {};
  const bool good = std::all_of(given.begin(), given.end(),
                                [](const Json& one) { return count_of(one).has_value(); });
  return good ? given : Json();
}

Json memory(const Json& step) {
  Json checked = Json::array();
  for (const Json& tier : list_at(step, "memory", kMostRows)) {
    const std::size_t moments = list_at(tier, "ticks", kMostMoments).size();
    Json ticks = counts(at(tier, "ticks"), moments);
    const Json purposes = texts(tier, "purposes", kMostRows);
    const Json& bytes = list_at(tier, "bytes", kMostRows);
    if (ticks.is_null() || bytes.size() != purposes.size()) continue;
    const auto as_long = [&](const Json& column) { return !counts(column, moments).is_null(); };
    if (!std::all_of(bytes.begin(), bytes.end(), as_long)) continue;
    checked.push_back({{"tier", text_at(tier, "tier", kMostTextBytes)},
                       {"limit", count_of(at(tier, "limit")).value_or(0)},
                       {"arena", count_of(at(tier, "arena")).value_or(0)},
                       {"beside", count_of(at(tier, "beside")).value_or(0)},
                       {"purposes", purposes},
                       {"ticks", std::move(ticks)},
                       {"bytes", bytes}});
  }
  return checked;
}

}  // namespace

std::optional<std::int64_t> count_of(const Json& json) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 53;
  if (!json.is_number_unsigned()) {
    // What was made here and not read may be a signed number.
    if (!json.is_number_integer() || json.get<std::int64_t>() < 0) return std::nullopt;
  }
  const auto count = json.get<std::uint64_t>();
  return count <= kMost ? std::optional(static_cast<std::int64_t>(count)) : std::nullopt;
}

std::optional<double> number_of(const Json& json) {
  if (!json.is_number()) return std::nullopt;
  const double number = json.get<double>();
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::string text_at(const Json& json, const char* key, std::size_t most_bytes) {
  const Json& text = at(json, key);
  return text.is_string() ? printable(text.get_ref<const std::string&>(), most_bytes)
                          : std::string();
}

Json checked_step(const Json& step) {
  const auto seconds = number_of(at(step, "seconds"));
  const auto tick = number_of(at(step, "tick_seconds"));
  if (!seconds || !tick || *seconds <= 0 || *tick <= 0) return nullptr;
  Json names = texts(step, "names", kMostTexts);
  Json kinds = texts(step, "kinds", kMostTexts);
  Json all = lanes(step, names.size(), kinds.size());
  return {{"kind", text_at(step, "kind", kMostTextBytes)},
          {"step", count_of(at(step, "step")).value_or(0)},
          {"seconds", *seconds},
          {"tick_seconds", *tick},
          {"names", std::move(names)},
          {"kinds", std::move(kinds)},
          {"lanes", std::move(all)},
          {"memory", memory(step)}};
}

}  // namespace ebb::report
