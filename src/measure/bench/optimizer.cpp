// `ebb bench optimizer`: updates by the CPU, beside the fastest way to move the same bytes.
#include "ebb/bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/machine.h"
#include "base/seconds_since.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "engine/runtime.h"
#include "engine/settings.h"
#include "kernels/cpu/isa.h"
#include "measure/bench/progress_reporter.h"
#include "measure/bench/race.h"
#include "measure/bench/state_memory.h"
#include "states/rules.h"

namespace ebb {
namespace {

using measure::ProgressReporter;

constexpr std::array kFormats = {kernels::StateFormat::exact, kernels::StateFormat::bf16,
                                 kernels::StateFormat::int8};
// No power of two: then the planes would start at the same place of every page, which chunks of
// real models do not.
constexpr std::int64_t kParameters = 60'000'000;
// Bytes of any number of rows stay far from overflow.
constexpr std::int64_t kMostParameters = 1'000'000'000'000;
// A median of fewer would be whatever else the machine did.
constexpr int kFewestRounds = 3;

// A row of the result: a rule's update, or (no rule) a pass over gradients.
struct Row {
  std::string name;  // of the rule, or of the pass
  kernels::StateFormat format = kernels::StateFormat::exact;
  std::optional<states::Rule> rule = std::nullopt;
  int threads = 0;
  double ns_per_parameter = 0;  // medians over passes, here and below
  double gb_per_second = 0;
  double bytes_per_parameter = 0;  // read and written
  double share_of_ceiling = 0;
  std::string ceiling = {};  // how the fastest rival moves the bytes
  std::size_t passes = 0;

  // A pass over gradients needs one plane of fp32 to add to.
  states::StateKind kind() const {
    return {.format = format, .moments = rule ? states::moments_of(*rule) : 1};
  }
};

// Nothing asked for is everything.
bool is_asked(const auto& asked, std::string_view name) {
  return asked.empty() || std::any_of(asked.begin(), asked.end(),
                                      [&](const auto value) { return to_word(value) == name; });
}

// What was asked for, as people write it.
std::string words(const auto& asked) {
  std::string text;
  for (const auto value : asked)
    text += fmt::format("{}{}", text.empty() ? "" : " ", to_word(value));
  return text;
}

// Rows in the order of the result. The passes over gradients are always among them: they are part
// of every step. Throws ConfigError where nothing is left.
std::vector<Row> rows_of(const OptimizerBenchOptions& options) {
  const std::vector<states::Rule> rules = {states::AdamW{}, states::Adam{}, states::Lion{},
                                           states::Sgd{}, states::Adagrad{}};
  std::vector<Row> rows;
  for (const states::Rule& rule : rules) {
    for (const kernels::StateFormat format : kFormats) {
      const bool there =
          format == kernels::StateFormat::exact || std::holds_alternative<states::AdamW>(rule);
      if (there && is_asked(options.rules, states::name_of(rule)) &&
          is_asked(options.formats, kernels::name_of(format))) {
        rows.push_back(
            {.name = std::string(states::name_of(rule)), .format = format, .rule = rule});
      }
    }
  }
  if (rows.empty()) {
    throw ConfigError(fmt::format("--rule {} --format {}: the compact formats are adamw's alone",
                                  words(options.rules), words(options.formats)));
  }
  rows.push_back({.name = "add_gradient"});
  rows.push_back({.name = "square_sums"});
  return rows;
}

// Each number once, in the order given; on a machine of one CPU "1 and all" is one row.
std::vector<int> threads_of(const OptimizerBenchOptions& options) {
  std::vector<int> threads = options.threads;
  if (threads.empty()) threads = {1, 0};
  std::vector<int> distinct;
  for (int count : threads) {
    if (engine::check_threads(count) == 0) count = usable_cpus();
    if (std::find(distinct.begin(), distinct.end(), count) == distinct.end()) {
      distinct.push_back(count);
    }
  }
  return distinct;
}

Bytes bytes_of(const std::vector<Row>& rows, std::int64_t parameters) {
  Bytes bytes = 0;
  for (const Row& row : rows) bytes += measure::StateMemory::bytes(row.kind(), parameters);
  return bytes;
}

// All rows are in memory at once, as they take turns. Throws OutOfBudget, ConfigError.
std::int64_t parameters_of(const OptimizerBenchOptions& options, const std::vector<Row>& rows) {
  const Bytes memory = usable_memory();
  // A million at a time is exact enough for advice.
  const auto fit = [&](Bytes bytes) {
    return static_cast<std::int64_t>(static_cast<double>(bytes) * 1e6 /
                                     static_cast<double>(bytes_of(rows, 1'000'000)));
  };
  // Nobody asked for a size: a quarter of the memory is enough for a bench.
  if (options.parameters == 0)
    return std::max<std::int64_t>(1, std::min(kParameters, fit(memory / 4)));
  if (options.parameters < 0 || options.parameters > kMostParameters) {
    throw ConfigError(fmt::format("--parameters {}: expected a whole number from 1 to {}",
                                  options.parameters, kMostParameters));
  }
  // The rest is for the system and its other programs.
  const Bytes most = memory / 4 * 3;
  if (const Bytes needed = bytes_of(rows, options.parameters); needed > most) {
    throw OutOfBudget(fmt::format(
        "--parameters {}: the planes of all rows take {}, but at most {} of this machine's {} are "
        "used; give at most {}, or fewer rows (--rule, --format)",
        options.parameters, format_bytes(needed), format_bytes(most), format_bytes(memory),
        fit(most)));
  }
  return options.parameters;
}

// The bench with one number of threads: memory for every row, and all rows in turns, so that what
// else the machine does hits all alike and rows can be compared. Not to be moved: races refer to
// it.
class OptimizerBench {
 public:
  OptimizerBench(std::vector<Row> rows, int threads, std::int64_t parameters)
      : runtime_("cpu", threads), parameters_(parameters), rows_(std::move(rows)) {
    for (Row& row : rows_) {
      row.threads = threads;
      memories_.emplace_back(runtime_.device(), row.kind(), parameters);
      races_.push_back(race(row, memories_.back()));
    }
  }

  std::vector<Row> run(double seconds, ProgressReporter& reporter) {
    find_ceilings(seconds, reporter);
    const auto start = std::chrono::steady_clock::now();
    const double all = seconds * static_cast<double>(rows_.size());
    for (int round = 0; round < kFewestRounds || seconds_since(start) < all; ++round) {
      for (measure::Race& race : races_) race.round(runtime_.pool());
      const double share = std::min(seconds_since(start) / all, (round + 1.0) / kFewestRounds);
      reporter.tell(fmt::format("threads {}, round {}", runtime_.threads(), round + 1),
                    std::min(share, 0.99) * static_cast<double>(rows_.size()));
    }
    reporter.finished(static_cast<double>(rows_.size()));
    for (std::size_t i = 0; i < rows_.size(); ++i) fill_in(rows_[i], races_[i]);
    return rows_;
  }

 private:
  // The work to time, and the planes that it reads and writes, which rivals move, too.
  measure::Race race(const Row& row, const measure::StateMemory& memory) {
    const kernels::StateSpan span = memory.span();
    kernels::OptimizerLibrary& library = runtime_.host_optimizer();
    std::vector<measure::StreamedPlane> planes = memory.planes();
    if (row.rule) {
      return {[this, span, &library, rule = *row.rule] {
                const kernels::StepScale scale{.gradient_scale = 0.9f};
                const kernels::Step step = states::step_numbers(rule, 1e-3, ++step_, true, 0);
                library.ops({})->update(span, step, &scale);
              },
              planes};
    }
    const measure::StreamedPlane gradient = planes.back();
    if (row.name == "square_sums") {
      partials_.resize(to_size(kernels::norm_blocks(span.count)));
      return {[this, span, &library] {
                library.ops({})->square_sums(partials_.data(), span.gradient, span.gradient_type,
                                             span.count);
              },
              {gradient}};
    }
    auto* sum = static_cast<float*>(span.first);
    return {[span, &library, sum] {
              library.ops({})->add_gradient(sum, span.gradient, span.gradient_type, span.count);
            },
            {{.data = reinterpret_cast<std::byte*>(sum), .bytes = 4 * span.count}, gradient}};
  }

  // Rows whose planes have the same sizes have the same rivals.
  void find_ceilings(double seconds, ProgressReporter& reporter) {
    std::map<std::vector<Bytes>, std::vector<measure::StreamVariant>> known;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      reporter.tell(fmt::format("threads {}, ceiling of {} {}", runtime_.threads(), rows_[i].name,
                                kernels::name_of(rows_[i].format)));
      // Touched and with numbers in it: untouched pages would all be the same page of zeros.
      memories_[i].fill(runtime_.pool());
      std::vector<Bytes> sizes;
      for (const measure::StreamedPlane& plane : races_[i].planes()) sizes.push_back(plane.bytes);
      auto& rivals = known[sizes];
      if (rivals.empty()) rivals = races_[i].find_rivals(runtime_.pool(), seconds);
      races_[i].set_rivals(rivals);
      reporter.finished(1);
    }
  }

  void fill_in(Row& row, const measure::Race& race) const {
    const auto count = static_cast<double>(parameters_);
    row.ns_per_parameter = race.seconds() / count * 1e9;
    row.bytes_per_parameter = race.bytes_moved() / count;
    row.gb_per_second = race.bytes_moved() / race.seconds() * 1e-9;
    row.share_of_ceiling = race.share_of_ceiling();
    row.ceiling = race.ceiling();
    row.passes = race.passes();
  }

  engine::Runtime runtime_;
  std::int64_t parameters_;
  std::int64_t step_ = 0;
  std::vector<Row> rows_;
  std::vector<double> partials_;
  std::vector<measure::StateMemory> memories_;
  std::vector<measure::Race> races_;  // they point into this object
};

Json to_json(const Row& row, const std::string& isa) {
  Json json;
  if (row.rule) {
    json = {{"rule", row.name}, {"format", kernels::name_of(row.format)}};
  } else {
    json = {{"pass", row.name}};
  }
  json["threads"] = row.threads;
  json["isa"] = isa;
  json["ns_per_parameter"] = row.ns_per_parameter;
  json["gb_per_second"] = row.gb_per_second;
  json["bytes_per_parameter"] = row.bytes_per_parameter;
  json["share_of_ceiling"] = row.share_of_ceiling;
  return json;
}

// As the system says it, "32768K"; as the processor does where there is no /sys.
Bytes last_cache() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  Bytes kib = 0;
  file >> kib;
  return kib > 0 ? kib * kKiB : largest_cache();
}

std::string to_text(const std::vector<Row>& rows, std::int64_t parameters, const std::string& isa) {
  std::size_t fewest = rows.front().passes;
  Bytes least = bytes_of({rows.front()}, parameters);
  for (const Row& row : rows) {
    fewest = std::min(fewest, row.passes);
    least = std::min(least, bytes_of({row}, parameters));
  }
  std::string text = fmt::format(
      "{} parameters with bf16 weights and gradients, instruction set {}.\n"
      "Medians of {} passes or more, rows in turns. The ceiling is the fastest of {} ways to read\n"
      "and write the same bytes with the same threads; each pass is compared with its "
      "neighbour.\n\n"
      "{:12} {:6} {:>7} {:>12} {:>8} {:>6} {:>10}  {}\n",
      format_count(parameters), isa, fewest, measure::stream_variants().size(), "rule", "format",
      "threads", "s per 1 B", "GB/s", "B each", "of ceiling", "the ceiling's way");
  for (const Row& row : rows) {
    text +=
        fmt::format("{:12} {:6} {:7} {:12.4f} {:8.1f} {:6.2f} {:10.3f}  {}\n", row.name,
                    row.rule ? kernels::name_of(row.format) : "", row.threads, row.ns_per_parameter,
                    row.gb_per_second, row.bytes_per_parameter, row.share_of_ceiling, row.ceiling);
  }
  // Below four times the cache much of a pass is served from it.
  if (const Bytes cache = last_cache(); least < 4 * cache) {
    text += fmt::format(
        "\nThe smallest row has {} of planes, the last cache {}: this is not the speed of memory. "
        "Give more --parameters.\n",
        format_bytes(least), format_bytes(cache));
  }
  return text;
}

}  // namespace

BenchResult bench_optimizer(const OptimizerBenchOptions& options,
                            const std::function<void(const BenchProgress&)>& progress) {
  const std::vector<Row> wanted = rows_of(options);
  const std::vector<int> threads = threads_of(options);
  const std::int64_t parameters = parameters_of(options, wanted);
  if (!(options.seconds >= 0 && options.seconds <= 3600)) {
    throw ConfigError(fmt::format("--seconds {}: expected 0 to 3600", options.seconds));
  }
  // Every row of every number of threads has two parts: the search for its ceiling and the race.
  ProgressReporter reporter(static_cast<double>(2 * wanted.size() * threads.size()), progress);
  std::vector<Row> rows;
  for (const int count : threads) {
    for (Row& row : OptimizerBench(wanted, count, parameters).run(options.seconds, reporter)) {
      rows.push_back(std::move(row));
    }
  }
  reporter.tell("done");
  const std::string isa = kernels::isa_in_use();
  Json json = {{"parameters", parameters}, {"rows", Json::array()}, {"gradients", Json::array()}};
  for (const Row& row : rows) {
    json[row.rule ? "rows" : "gradients"].push_back(to_json(row, isa));
  }
  return {.text = to_text(rows, parameters, isa), .json = json.dump(2)};
}

}  // namespace ebb
