#include "ebb/watch.h"

#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "ebb/error.h"
#include "io/folder_lock.h"
#include "io/posix_file_system.h"
#include "report/run_data.h"

namespace ebb {

struct RunWatch::State {
  io::PosixFileSystem files;
  std::filesystem::path folder;
  report::LineSplitter lines;
  Bytes offset = 0;
  std::int64_t step = 0;                // the last one told
  double recent_seconds = 0;            // of a step
  std::optional<std::int64_t> planned;  // steps of the run; not known before it is asked
  std::vector<TierMemory> limits;

  void begin_anew() {
    lines = {};
    offset = 0;
    step = 0;
    recent_seconds = 0;
    planned.reset();
  }

  // What the run said when it began; nothing where it has not said it yet.
  void read_plan() {
    if (planned || !files.is_file(folder / report::kPlanName)) return;
    try {
      const report::RunData plan = report::read_plan(files, folder);
      planned = plan.planned_steps;
      limits.clear();
      for (const report::TierFigures& tier : plan.tiers) {
        limits.push_back({.tier = tier.name, .most = 0, .limit = tier.limit});
      }
    } catch (const Error&) {
      planned = 0;
    }
  }

  StepReport report_of(const report::LogLine& line) {
    // Of the last ten or so, as the run's own rates are.
    const double seconds = line.seconds.value_or(0);
    recent_seconds = recent_seconds == 0 ? seconds : 0.9 * recent_seconds + 0.1 * seconds;
    const std::int64_t left = std::max<std::int64_t>(0, planned.value_or(0) - line.step);
    StepReport report{.step = line.step,
                      .steps = planned.value_or(0),
                      .loss = line.loss.value_or(NAN),
                      .norm = line.norm.value_or(NAN),
                      .learning_rate = line.learning_rate.value_or(0),
                      .tokens_per_second = line.tokens_per_second.value_or(0),
                      .utilization = line.utilization,
                      .seconds_left = recent_seconds * static_cast<double>(left),
                      .memory = limits};
    for (const auto& [name, bytes] : line.memory) {
      if (name == "device") report.device_bytes = bytes;
      for (TierMemory& tier : report.memory) {
        if (tier.tier == name) tier.most = bytes;
      }
    }
    return report;
  }

  void take(std::string_view text, TrainObserver& observer) {
    const auto line = report::parse_log_line(text);
    if (!line) return;
    if (line->validation_loss) {
      observer.note(fmt::format("Validation after step {}: loss {:.4f}, perplexity {:.2f}",
                                line->step, *line->validation_loss,
                                std::exp(*line->validation_loss)));
      return;
    }
    step = line->step;
    observer.step(report_of(*line));
  }
};

RunWatch::RunWatch(const std::string& run) : state_(std::make_unique<State>()) {
  state_->folder = run;
  const auto has = [&](const char* name) { return state_->files.is_file(state_->folder / name); };
  if (!has(report::kLogName) && !has(io::FolderLock::kName)) {
    throw ConfigError(fmt::format(
        "{}: this is no run: expected a folder with {}; give the one of 'ebb train --out'",
        in_quotes(run), report::kLogName));
  }
}

RunWatch::~RunWatch() = default;
RunWatch::RunWatch(RunWatch&&) noexcept = default;
RunWatch& RunWatch::operator=(RunWatch&&) noexcept = default;

void RunWatch::poll(TrainObserver& observer) {
  State& state = *state_;
  const std::filesystem::path path = state.folder / report::kLogName;
  if (!state.files.is_file(path)) return;
  state.read_plan();
  const auto take = [&](std::string_view piece) {
    state.lines.feed(piece, [&](std::string_view line) { state.take(line, observer); });
  };
  Bytes end = report::read_pieces(state.files, path, state.offset, take);
  if (end < state.offset) {
    // It is shorter than it was: the run went on from an earlier step.
    state.begin_anew();
    state.read_plan();
    end = report::read_pieces(state.files, path, 0, take);
  }
  state.offset = end;
}

bool RunWatch::running() const { return io::FolderLock::is_held(state_->folder); }

}  // namespace ebb
