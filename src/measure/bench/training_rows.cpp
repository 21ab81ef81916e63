#include "measure/bench/training_rows.h"

#include <algorithm>
#include <charconv>
#include <tuple>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::measure {
namespace {

// Rows of one device: the table's own, and what others are made of.
struct Defaults {
  std::vector<TrainingRow> table;
  std::vector<TrainingRow> tiers;  // the table of limits that weights and gradients must leave too
  std::string model;
  std::int64_t sequence, micro_batch, accumulate;
  std::int64_t more;  // micro-batches of the curve's second half
};

// A row of the table, for every limit.
struct Entry {
  std::string model;
  std::int64_t sequence, micro_batch, accumulate;
  std::vector<std::string> limits;
  StateFormat format = StateFormat::exact;
};

// Numbers count from 1 over the whole table: --only goes by them.
std::vector<TrainingRow> rows_of(const std::vector<Entry>& entries) {
  std::vector<TrainingRow> rows;
  for (const Entry& e : entries) {
    for (const std::string& limit : e.limits) {
      rows.push_back({.number = static_cast<int>(rows.size()) + 1,
                      .model = e.model,
                      .sequence = e.sequence,
                      .micro_batch = e.micro_batch,
                      .accumulate = e.accumulate,
                      .limit = limit,
                      .format = e.format});
    }
  }
  return rows;
}

// Each table is a comparison: the rows of one entry differ in their limit alone.
Defaults defaults_of(const std::string& device) {
  const std::vector<std::string> all = {"resident", "-50%", "-90%"};
  const std::vector<std::string> most = {"resident", "-90%"};
  if (device == "cpu") {
    // Small enough for two cores to be through in a minute or two.
    const std::string small = "preset:small";
    return {.table = rows_of({{"preset:tiny", 256, 2, 2, {"resident"}},
                              {small, 256, 1, 2, all},
                              {small, 256, 1, 8, most},
                              {small, 256, 1, 2, most, StateFormat::int8},
                              {small, 256, 1, 2, {"off"}}}),
            .tiers = rows_of(
                {{small, 256, 1, 4, {"64MiB", "48MiB", "32MiB"}}, {small, 256, 4, 1, {"48MiB"}}}),
            .model = small,
            .sequence = 256,
            .micro_batch = 1,
            .accumulate = 2,
            .more = 8};
  }
  const std::string model = "preset:qwen2.5-3b";
  return {
      .table = rows_of({{"preset:qwen2.5-1.5b", 2048, 8, 2, {"resident"}},
                        {model, 2048, 8, 2, all},
                        {model, 2048, 8, 8, most},
                        {model, 2048, 8, 2, most, StateFormat::int8},
                        {"preset:qwen2.5-7b", 2048, 4, 4, {"off"}}}),
      .tiers = rows_of({{"preset:qwen2.5-7b", 2048, 4, 4, {"56.6GiB", "40GiB", "24GiB", "16GiB"}},
                        {"preset:qwen2.5-7b", 2048, 16, 1, {"16GiB"}},
                        {"preset:llama-3.1-8b", 4096, 2, 4, {"48GiB", "24GiB"}},
                        {"preset:qwen2.5-14b", 2048, 4, 16, {"all"}},
                        {"preset:qwen2.5-32b", 2048, 16, 2, {"all"}, StateFormat::int8}}),
      .model = model,
      .sequence = 2048,
      .micro_batch = 8,
      .accumulate = 2,
      .more = 8};
}

// Every combination of what was given; what was not is as in the table.
std::vector<TrainingRow> chosen_rows(const TrainBenchOptions& o, const Defaults& defaults) {
  const auto or_else = [](const auto& given, auto other) { return given.empty() ? other : given; };
  using Words = std::vector<std::string>;
  const Words limits = o.curve ? Words{"resident", "-50%", "-75%", "-90%"}
                               : Words{"resident", "-50%", "-90%", "off"};
  std::vector<std::int64_t> counts = {defaults.accumulate};
  if (o.curve) counts.push_back(defaults.more);
  std::vector<Entry> entries;
  for (const std::int64_t accumulate : or_else(o.accumulate, counts)) {
    for (const StateFormat format : or_else(o.state_formats, std::vector{StateFormat::exact})) {
      entries.push_back({.model = o.model.empty() ? defaults.model : o.model,
                         .sequence = o.sequence == 0 ? defaults.sequence : o.sequence,
                         .micro_batch = o.micro_batch == 0 ? defaults.micro_batch : o.micro_batch,
                         .accumulate = accumulate,
                         .limits = or_else(o.limits, limits),
                         .format = format});
    }
  }
  return rows_of(entries);
}

}  // namespace

RowLimit parse_limit(const std::string& text) {
  if (text == "resident") return {.kind = RowLimit::Kind::resident};
  if (text == "off") return {.kind = RowLimit::Kind::off};
  if (text == "all") return {.kind = RowLimit::Kind::all};
  if (text.starts_with('-') && text.ends_with('%')) {
    double percent = -1;
    const char* last = text.data() + text.size() - 1;
    const auto [end, error] = std::from_chars(text.data() + 1, last, percent);
    if (error == std::errc{} && end == last && percent >= 0 && percent <= 100) {
      return {.kind = RowLimit::Kind::less, .share = percent / 100};
    }
  } else {
    try {
      return {.kind = RowLimit::Kind::bytes, .bytes = parse_bytes(text, "--limit")};
    } catch (const ConfigError&) {
      // Said below with all there is.
    }
  }
  throw ConfigError(fmt::format(
      "--limit '{}': expected resident, -90% (or another share of the states), off, all, or bytes "
      "such as 16GiB",
      text));
}

bool TrainingRow::same_numbers(const TrainingRow& other) const {
  const auto numbers = [](const TrainingRow& row) {
    return std::tie(row.model, row.sequence, row.micro_batch, row.accumulate, row.format);
  };
  return numbers(*this) == numbers(other);
}

std::vector<TrainingRow> training_rows(const TrainBenchOptions& o, const std::string& device) {
  const Defaults defaults = defaults_of(device);
  const bool own = o.model.empty() && o.sequence == 0 && o.micro_batch == 0 &&
                   o.accumulate.empty() && o.limits.empty() && o.state_formats.empty() && !o.curve;
  if (o.table && !own) {
    throw ConfigError(
        "--table has rows of its own: leave out --model, --sequence, --micro-batch, "
        "--accumulate, --limit, --state-format and --curve, or --table");
  }
  std::vector<TrainingRow> rows = !own                           ? chosen_rows(o, defaults)
                                  : o.table == BenchTable::tiers ? defaults.tiers
                                                                 : defaults.table;
  // Told now, and not when that row's turn comes after hours.
  for (const TrainingRow& row : rows) parse_limit(row.limit);
  // Numbers are those of the whole table, so rows are dropped only after all were numbered.
  for (const int number : o.only) {
    if (number < 1 || number > static_cast<int>(rows.size())) {
      throw ConfigError(fmt::format("--only {}: the rows are 1 to {}", number, rows.size()));
    }
  }
  if (!o.only.empty()) {
    std::erase_if(rows, [&](const TrainingRow& row) {
      return std::find(o.only.begin(), o.only.end(), row.number) == o.only.end();
    });
  }
  return rows;
}

}  // namespace ebb::measure
