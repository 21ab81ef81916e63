#include "measure/bench/row_words.h"

#include <fmt/format.h>

namespace ebb::measure {

std::string short_model(const std::string& model) {
  return model.substr(model.find_last_of(":/", model.size() - 1) + 1);
}

std::string refusal_text(const std::string& refusal, bool failed) {
  const std::size_t missing = refusal.find("Missing on");
  const std::size_t first = missing == std::string::npos ? 0 : missing;
  return (failed ? "failed: " : "does not fit: ") +
         refusal.substr(first, refusal.find('\n', first) - first);
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:.1f}%", 100 * *share) : "-";
}

Json to_json(const Peak& peak) {
  return {{"limit", peak.limit}, {"predicted", peak.predicted}, {"measured", peak.measured}};
}

}  // namespace ebb::measure
