// `ebb bench train`: training measured row by row, in one process.
#include <fmt/format.h>

#include "ebb/bench.h"
#include "ebb/error.h"
#include "ebb/version.h"
#include "engine/settings.h"
#include "files/model/source.h"
#include "io/posix_file_system.h"
#include "measure/bench/plan_speeds.h"
#include "measure/bench/progress_reporter.h"
#include "measure/bench/training_report.h"

namespace ebb {
namespace {

using measure::RowResult;
using measure::TrainingRow;

// Throws ConfigError. The bound keeps warm-up and steps together far from overflow.
void check_steps(std::int64_t steps, std::string_view flag, std::int64_t least) {
  if (steps >= least && steps <= 10000) return;
  throw ConfigError(fmt::format("{} {}: expected {} to 10000", flag, steps, least));
}

// Weights of the progress: work grows with the model and with the tokens.
double work_of(const TrainingRow& row, std::int64_t parameters) {
  return static_cast<double>(row.tokens()) * static_cast<double>(parameters);
}

}  // namespace

BenchResult bench_training(const TrainBenchOptions& options,
                           const std::function<void(const BenchProgress&)>& progress) {
  check_steps(options.steps, "--steps", 1);
  check_steps(options.warm_up, "--warm-up", 0);
  io::PosixFileSystem files;
  engine::Runtime runtime(options.device, engine::check_threads(options.threads));
  const std::vector<TrainingRow> rows = measure::training_rows(options, runtime.device().kind());
  std::vector<double> work;
  double all = 0;
  for (const TrainingRow& row : rows) {
    const model::Config config = files::find_model(files, row.model).config;
    work.push_back(work_of(row, model::parameters_of(config).count()));
    all += work.back();
  }
  const std::string speeds = measure::use_plan_speeds(files, runtime, options.profile, progress);

  measure::ProgressReporter reporter(all, progress);
  measure::RowRunner runner(runtime, files, options);
  std::vector<RowResult> results;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    results.push_back(runner.run(
        rows[i], [&](const std::string& now, double done) { reporter.tell(now, done * work[i]); },
        [&](const std::string& found) { reporter.tell_result(found); }));
    reporter.finished(work[i]);
    reporter.tell_result(measure::to_line(results.back()));
  }

  BenchResult result;
  // Placement must not change a bit: rows that differ in it alone must end with the same digest.
  const measure::Compared compared = measure::compare_rows(results);
  result.failure = compared.failure;
  // Nothing was compared where there is but one of each.
  const Json digests_agree = compared.pairs > 0 ? Json(compared.failure.empty()) : Json();
  for (const RowResult& row : results) {
    if (row.failed && result.failure.empty()) {
      result.failure = fmt::format("row {} failed: {}", row.row.number, row.refusal);
    }
  }
  const plan::Figure peak = runtime.profile().matmul_flops;
  Json json = {{"ebb", kVersion},
               {"device", runtime.device().kind()},
               {"device_name", runtime.device().name()},
               {"threads", runtime.threads()},
               {"speeds", speeds},
               {"matrix_flops_per_second", {{"value", peak.value}, {"source", peak.source}}},
               {"warm_up", options.warm_up},
               {"steps", options.steps},
               {"digests_agree", digests_agree},
               {"rows", Json::array()}};
  for (const RowResult& row : results) json["rows"].push_back(measure::to_json(row));
  result.json = json.dump(2);
  result.text = fmt::format(
      "{}, {} threads. {}.\nMedians of {} steps after {} to warm up; the ratio is predicted by "
      "measured speed; utilization is of {:.4g} TFLOP/s (matrix products, {}).\n\n{}",
      runtime.device().name(), runtime.threads(), speeds, options.steps, options.warm_up,
      peak * 1e-12, peak.source, measure::to_text(results));
  if (digests_agree == true) {
    result.text += fmt::format(
        "Rows that differ in placement alone ended with the same weights after {} steps.\n",
        options.warm_up + options.steps);
  }
  return result;
}

}  // namespace ebb
