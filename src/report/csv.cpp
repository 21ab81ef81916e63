#include "report/csv.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace ebb::report {
namespace {

// Of those a tier that a machine does not have leaves its column empty.
constexpr std::array<std::string_view, 3> kTiers = {"device", "host", "disk"};

}  // namespace

std::string csv_header() {
  std::string header = "step";
  for (const LogField& field : kLogFields) header += fmt::format(",{}", field.key);
  header += ",validation_tokens";
  for (const std::string_view tier : kTiers) header += fmt::format(",{}_bytes", tier);
  return header + "\n";
}

std::string csv_row(const LogLine& line) {
  std::string row = std::to_string(line.step);
  for (const LogField& field : kLogFields) {
    // The shortest digits that give back the number; "nan" and "inf" are read by all readers.
    const auto& value = line.*field.value;
    row += value ? fmt::format(",{}", *value) : ",";
  }
  row += line.validation_loss ? fmt::format(",{}", line.validation_tokens) : ",";
  for (const std::string_view tier : kTiers) {
    const auto found = std::ranges::find(line.memory, tier, &std::pair<std::string, Bytes>::first);
    row += found == line.memory.end() ? "," : fmt::format(",{}", found->second);
  }
  return row + "\n";
}

std::string csv_of(std::string_view log) {
  std::string text = csv_header();
  LineSplitter().feed(log, [&](std::string_view line) {
    if (const auto parsed = parse_log_line(line)) text += csv_row(*parsed);
  });
  return text;
}

}  // namespace ebb::report
