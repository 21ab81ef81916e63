#include "measure/bench/plan_speeds.h"

#include "engine/machine_profile.h"
#include "measure/bench/progress_reporter.h"
#include "measure/probe/measure.h"

namespace ebb::measure {
namespace {

// Seconds spent, about, on a machine without a profile.
constexpr double kProbeSeconds = 15;

}  // namespace

std::string use_plan_speeds(io::FileSystem& files, engine::Runtime& runtime,
                            const std::string& path,
                            const std::function<void(const BenchProgress&)>& progress) {
  const std::string speeds = engine::load_profile(files, runtime, path);
  if (runtime.profile().matmul_flops.measured() || !path.empty()) return speeds;
  ProgressReporter reporter(1, progress);
  const auto tell = [&](const std::string& now, double done) {
    reporter.tell("this machine: " + now, done);
  };
  runtime.use_profile(measure_machine(runtime, kProbeSeconds, tell).profile);
  return "Speeds were measured first, for this run alone; `ebb probe` keeps them";
}

}  // namespace ebb::measure
