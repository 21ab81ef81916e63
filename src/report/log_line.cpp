#include "report/log_line.h"

#include <limits>

#include "base/json.h"
#include "ebb/error.h"
#include "report/picture.h"

namespace ebb::report {
namespace {

// A step's line has some 300 bytes.
constexpr std::size_t kMostLineBytes = 64 * 1024;
constexpr std::size_t kMostTiersOfALine = 8;

// A number that is not finite is written as null.
std::optional<double> value_at(const Json& json, std::string_view key) {
  const auto found = json.find(key);
  if (found == json.end()) return std::nullopt;
  if (found->is_null()) return std::numeric_limits<double>::quiet_NaN();
  return found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

}  // namespace

Json to_json(const LogLine& line) {
  Json json = {{"step", line.step}};
  for (const LogField& field : kLogFields) {
    if (const auto& value = line.*field.value) json[std::string(field.key)] = *value;
  }
  if (line.validation_loss) json["validation_tokens"] = line.validation_tokens;
  if (!line.memory.empty()) {
    Json& memory = json["memory"] = Json::object();
    for (const auto& [tier, bytes] : line.memory) memory[tier] = bytes;
  }
  return json;
}

std::optional<LogLine> parse_log_line(std::string_view text) {
  Json json;
  try {
    json = parse_json(text, "a line of a log");
  } catch (const FormatError&) {
    return std::nullopt;
  }
  if (!json.is_object()) return std::nullopt;
  const auto step = json.find("step");
  const auto number = step == json.end() ? std::nullopt : count_of(*step);
  if (!number) return std::nullopt;
  LogLine line;
  line.step = *number;
  for (const LogField& field : kLogFields) line.*field.value = value_at(json, field.key);
  if (const auto tokens = json.find("validation_tokens"); tokens != json.end()) {
    line.validation_tokens = count_of(*tokens).value_or(0);
  }
  const auto memory = json.find("memory");
  if (memory == json.end() || !memory->is_object()) return line;
  for (const auto& [tier, bytes] : memory->items()) {
    if (line.memory.size() == kMostTiersOfALine) break;
    if (const auto count = count_of(bytes)) line.memory.emplace_back(tier, *count);
  }
  return line;
}

void LineSplitter::feed(std::string_view piece, const std::function<void(std::string_view)>& take) {
  while (!piece.empty()) {
    const std::size_t end = piece.find('\n');
    const std::string_view part = piece.substr(0, end);
    too_long_ = too_long_ || line_.size() + part.size() > kMostLineBytes;
    if (too_long_) {
      line_.clear();
    } else {
      line_ += part;
    }
    if (end == std::string_view::npos) return;
    take(line_);
    line_.clear();
    too_long_ = false;
    piece.remove_prefix(end + 1);
  }
}

}  // namespace ebb::report
