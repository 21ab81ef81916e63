#include "engine/start_times.h"

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/units.h"

namespace ebb::engine {

void StartTimes::lap(std::string phase) {
  const Clock::time_point now = Clock::now();
  phases_.emplace_back(std::move(phase), std::chrono::duration<double>(now - last_).count());
  last_ = now;
}

std::string StartTimes::text() const {
  std::string text;
  for (const auto& [phase, seconds] : phases_) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", phase, format_seconds(seconds));
  }
  return text;
}

Json StartTimes::json() const {
  Json json = Json::object();
  for (const auto& [phase, seconds] : phases_) json[phase] = seconds;
  return json;
}

}  // namespace ebb::engine
