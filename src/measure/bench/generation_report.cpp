#include "measure/bench/generation_report.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/units.h"
#include "measure/bench/row_words.h"

namespace ebb::measure {
namespace {

std::string or_all(const std::optional<Bytes>& limit) {
  return limit ? format_bytes(*limit) : "all";
}

// "device", or "60% device, 40% host".
std::string places_text(const GenerationRow& row) {
  if (row.places.size() == 1) return row.places[0].first;
  std::string text;
  for (const auto& [tier, bytes] : row.places) {
    text +=
        fmt::format("{}{:.0f}% {}", text.empty() ? "" : ", ",
                    100 * static_cast<double>(bytes) / static_cast<double>(row.weight_bytes), tier);
  }
  return text;
}

struct Column {
  std::string name;
  bool left = false;  // aligned; numbers are right
  std::function<std::string(const GenerationRow&)> cell;
};

// Those of limits and places are there where some row has more to say than what goes without
// saying.
std::vector<Column> columns_of(const std::vector<GenerationRow>& rows) {
  const auto any = [&](auto has) { return std::any_of(rows.begin(), rows.end(), has); };
  const auto measured = [](auto text) {
    return [text](const GenerationRow& row) { return row.refusal.empty() ? text(row) : "-"; };
  };
  using Row = GenerationRow;
  std::vector<Column> columns = {
      {"model", true, [](const Row& row) { return short_model(row.setup.model); }},
      {"size", false, measured([](const Row& row) { return format_bytes(row.weight_bytes); })},
      {"params", false, [](const Row& row) { return format_count(row.parameters); }},
      {"dtype", true, [](const Row& row) { return std::string(name_of(row.dtype)); }},
      {"threads", false, [](const Row& row) { return std::to_string(row.threads); }}};
  if (any([](const Row& row) { return row.setup.device_memory.has_value(); })) {
    columns.push_back(
        {"device memory", false, [](const Row& row) { return or_all(row.setup.device_memory); }});
  }
  if (any([](const Row& row) { return row.setup.host_memory.has_value(); })) {
    columns.push_back(
        {"host memory", false, [](const Row& row) { return or_all(row.setup.host_memory); }});
  }
  if (any([](const Row& row) { return row.places.size() > 1; })) {
    columns.push_back({"weights", true, measured(places_text)});
  }
  columns.push_back({"test", false, [](const Row& row) { return row.test.name(); }});
  columns.push_back({"t/s", false, [](const Row& row) {
                       if (row.failed) return std::string("failed");
                       if (!row.refusal.empty()) return std::string("does not fit");
                       return fmt::format("{:.2f} ± {:.2f}", row.speed(), row.deviation());
                     }});
  columns.push_back({"predicted", false, measured([](const Row& row) {
                       return fmt::format("{:.2f}", row.predicted_speed());
                     })});
  columns.push_back({"of ceiling", false,
                     measured([](const Row& row) { return percent(row.share_of_ceiling()); })});
  return columns;
}

// Characters as they are seen: "±" is two bytes.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string padded(const std::string& text, std::size_t width, bool left) {
  const std::string space(width - width_of(text), ' ');
  return left ? text + space : space + text;
}

std::string table(const std::vector<GenerationRow>& rows) {
  const std::vector<Column> columns = columns_of(rows);
  std::vector<std::string> lines(rows.size() + 2, "|");
  for (const Column& column : columns) {
    std::size_t width = std::max<std::size_t>(3, width_of(column.name));
    std::vector<std::string> cells;
    for (const GenerationRow& row : rows) {
      cells.push_back(column.cell(row));
      width = std::max(width, width_of(cells.back()));
    }
    lines[0] += " " + padded(column.name, width, column.left) + " |";
    lines[1] += " " + std::string(width - 1, '-') + (column.left ? "- |" : ": |");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      lines[i + 2] += " " + padded(cells[i], width, column.left) + " |";
    }
  }
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// The first row of each number of threads and type.
std::vector<const GenerationRow*> rows_with_other_rates(const std::vector<GenerationRow>& rows) {
  std::vector<const GenerationRow*> first;
  for (const GenerationRow& row : rows) {
    const bool known = std::any_of(first.begin(), first.end(), [&](const GenerationRow* other) {
      return other->threads == row.threads && other->dtype == row.dtype;
    });
    if (!known) first.push_back(&row);
  }
  return first;
}

}  // namespace

Json to_json(const GenerationRow& row) {
  Json json = {{"model", row.setup.model},
               {"parameters", row.parameters},
               {"dtype", name_of(row.dtype)},
               {"threads", row.threads},
               {"device_memory", or_null(row.setup.device_memory)},
               {"host_memory", or_null(row.setup.host_memory)},
               {"test", row.test.name()},
               {"depth", row.test.depth},
               {"batch", row.test.batch},
               {"prompt_tokens", row.test.prompt},
               {"tokens", row.test.tokens}};
  if (!row.refusal.empty()) {
    json[row.failed ? "failed" : "does_not_fit"] = row.refusal;
    return json;
  }
  json["weight_bytes"] = row.weight_bytes;
  for (const auto& [tier, bytes] : row.places) json["weights_on"][tier] = bytes;
  json["tokens_per_second"] = row.speed();
  json["standard_deviation"] = row.deviation();
  json["samples"] = row.speeds();
  json["sample_seconds"] = row.seconds;
  json["predicted_tokens_per_second"] = row.predicted_speed();
  json["predicted_over_measured"] = row.predicted_speed() / row.speed();
  json["ceiling_tokens_per_second"] = or_null(row.ceiling_speed());
  json["share_of_ceiling"] = or_null(row.share_of_ceiling());
  double read = 0;
  for (const double bytes : row.cost.read_bytes.values) read += bytes;
  json["prompt_flops"] = row.cost.flops;
  json["bytes_per_token"] =
      row.test.tokens > 0 ? read / static_cast<double>(row.test.batch * row.test.tokens) : 0.0;
  json["load_seconds"] = row.load_seconds;
  json["peaks"] = {{"device", to_json(row.device)}, {"host", to_json(row.host)}};
  return json;
}

Json rates_json(const std::vector<GenerationRow>& rows) {
  Json json = Json::array();
  const auto rate = [](const ReadRate& read) {
    return Json{{"bytes_per_second", read.bytes_per_second}, {"way", read.way}};
  };
  for (const GenerationRow* row : rows_with_other_rates(rows)) {
    json.push_back({{"threads", row->threads},
                    {"dtype", name_of(row->dtype)},
                    {"host_reads", rate(row->rates.host)},
                    {"device_reads", rate(row->rates.device)},
                    {"matrix_flops_per_second", row->rates.matrix_flops}});
  }
  return json;
}

std::string to_text(const std::vector<GenerationRow>& rows) {
  std::string text = table(rows);
  std::string below;
  for (const GenerationRow& row : rows) {
    if (!row.refusal.empty()) below += to_line(row) + "\n";
  }
  if (!below.empty()) text += "\n" + below;
  text += "\nCeilings, measured in this run:\n";
  for (const GenerationRow* row : rows_with_other_rates(rows)) {
    const GenerationRates& rates = row->rates;
    text += fmt::format("- {} threads: host memory is read at {:.1f} GB/s ({})", row->threads,
                        1e-9 * rates.host.bytes_per_second, rates.host.way);
    if (rates.device.way != rates.host.way) {
      text += fmt::format(", device memory at {:.1f} GB/s ({})",
                          1e-9 * rates.device.bytes_per_second, rates.device.way);
    }
    text += fmt::format("; matrix products {:.4g} TFLOP/s ({})\n", 1e-12 * rates.matrix_flops,
                        name_of(row->dtype));
  }
  return text;
}

std::string to_line(const GenerationRow& row) {
  const std::string what = fmt::format("{} {}: ", row.setup.model, row.test.name());
  if (!row.refusal.empty()) return what + refusal_text(row.refusal, row.failed);
  return what + fmt::format("{:.2f} ± {:.2f} tokens/s, predicted {:.2f}, {} of the ceiling",
                            row.speed(), row.deviation(), row.predicted_speed(),
                            percent(row.share_of_ceiling()));
}

}  // namespace ebb::measure
