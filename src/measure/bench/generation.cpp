// `ebb bench generate`: prompts and tokens of a model, measured row by row, in one process.
#include <ctime>
#include <iterator>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "base/json.h"
#include "base/machine.h"
#include "ebb/bench.h"
#include "ebb/error.h"
#include "ebb/version.h"
#include "engine/settings.h"
#include "files/model/source.h"
#include "io/posix_file_system.h"
#include "kernels/cpu/isa.h"
#include "measure/bench/generation_report.h"
#include "measure/bench/plan_speeds.h"
#include "measure/bench/progress_reporter.h"

namespace ebb {
namespace {

using measure::GenerationRow;

void check(const GenerateBenchOptions& options) {
  if (options.repetitions < 1 || options.repetitions > 10000) {
    throw ConfigError(fmt::format("--repetitions {}: expected 1 to 10000", options.repetitions));
  }
  if (!(options.ceiling_seconds >= 0 && options.ceiling_seconds <= 3600)) {
    throw ConfigError(
        fmt::format("--ceiling-seconds {}: expected 0 to 3600", options.ceiling_seconds));
  }
  for (const int threads : options.threads) engine::check_threads(threads);
}

}  // namespace

BenchResult bench_generation(const GenerateBenchOptions& options,
                             const std::function<void(const BenchProgress&)>& progress) {
  // All that can be refused is refused before anything is measured.
  check(options);
  io::PosixFileSystem files;
  const std::vector<measure::GenerationTest> tests = measure::generation_tests(options);
  for (const std::string& model : options.models) {
    measure::check_positions(tests, model, files::find_model(files, model).config);
  }
  const std::vector<int> threads = options.threads.empty() ? std::vector<int>{0} : options.threads;
  std::vector<GenerationRow> rows;
  std::string device, name, isa, speeds;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    engine::Runtime runtime(options.device, threads[i]);
    device = runtime.device().kind();
    name = runtime.device().name();
    speeds = measure::use_plan_speeds(files, runtime, options.profile, progress);
    const std::vector<measure::GenerationSetup> setups =
        measure::generation_setups(options, device);
    const auto each = static_cast<double>(tests.size());
    const auto of_threads = each * static_cast<double>(setups.size());
    measure::ProgressReporter reporter(of_threads * static_cast<double>(threads.size()), progress);
    reporter.finished(of_threads * static_cast<double>(i));
    measure::GenerationRunner runner(runtime, files, options);
    for (const measure::GenerationSetup& setup : setups) {
      const auto tell = [&](const std::string& now, double behind) { reporter.tell(now, behind); };
      std::vector<GenerationRow> measured = runner.run(
          setup, tests, tell,
          [&](const GenerationRow& row) { reporter.tell_result(measure::to_line(row)); });
      reporter.finished(each);
      std::move(measured.begin(), measured.end(), std::back_inserter(rows));
    }
  }

  BenchResult result;
  for (const GenerationRow& row : rows) {
    if (row.failed && result.failure.empty()) {
      result.failure =
          fmt::format("{} {} failed: {}", row.setup.model, row.test.name(), row.refusal);
    }
  }
  Json json = {{"ebb", kVersion},
               {"commit", options.commit},
               {"date", fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr)))},
               {"device", device},
               {"device_name", name},
               {"processor", processor_name()},
               {"processors", usable_cpus()},
               {"isa", kernels::isa_in_use()},
               {"speeds", speeds},
               {"repetitions", options.repetitions},
               {"ceilings", measure::rates_json(rows)},
               {"rows", Json::array()}};
  for (const GenerationRow& row : rows) json["rows"].push_back(measure::to_json(row));
  result.json = json.dump(2);
  result.text = fmt::format(
      "{}\nbuild: {} ({}), {}, {}. {}.\nMeans of {} repetitions and their standard deviation, "
      "after one that does not count.\n",
      measure::to_text(rows), kVersion, options.commit, name, kernels::isa_in_use(), speeds,
      options.repetitions);
  return result;
}

}  // namespace ebb
