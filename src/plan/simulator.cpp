#include "plan/simulator.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>

namespace ebb::plan {
namespace {

// Tides of one step reach into the next and no further, so the third step already repeats.
constexpr int kSteps = 4;
constexpr std::size_t kCompute = static_cast<std::size_t>(Lane::compute);

using PerLane = std::array<double, kLanes.size()>;

// How fast each running lane gets on, as a share of its speed when it runs alone.
PerLane speeds_of(const Profile& profile, const std::array<bool, kLanes.size()>& running) {
  PerLane speeds;
  speeds.fill(1.0);
  for (const Shared& shared : profile.shared) {
    double wanted = 0;
    for (std::size_t lane = 0; lane < kLanes.size(); ++lane) {
      if (running[lane]) wanted += shared.wants[lane] * speeds[lane];
    }
    if (wanted <= shared.capacity) continue;
    for (std::size_t lane = 0; lane < kLanes.size(); ++lane) {
      if (shared.wants[lane] > 0) speeds[lane] *= shared.capacity / wanted;
    }
  }
  return speeds;
}

class Run {
 public:
  Run(const Program& program, const Profile& profile)
      : program_(program),
        profile_(profile),
        ends_(program.tasks.size(), 0),
        end_times_(program.tasks.size(), 0.0) {
    for (std::size_t i = 0; i < program.tasks.size(); ++i) {
      const auto lane = static_cast<std::size_t>(program.tasks[i].lane);
      tasks_[lane].push_back(static_cast<TaskId>(i));
      seconds_.push_back(predicted_seconds(program.tasks[i], profile));
      result_.busy_seconds[lane] += seconds_.back();
    }
    if (tasks_[kCompute].empty()) throw std::invalid_argument("a program that computes nothing");
  }

  Simulation simulate() {
    while (lanes_[kCompute].step < kSteps) go_on();
    result_.step_seconds = step_ends_[kSteps - 1] - step_ends_[kSteps - 2];
    return result_;
  }

  std::vector<Span> spans() {
    keeps_spans_ = true;
    const auto ended = [&](std::size_t lane) {
      return tasks_[lane].empty() || lanes_[lane].step == kSteps;
    };
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      while (!ended(lane)) go_on();
    }
    return std::move(spans_);
  }

 private:
  struct LaneState {
    int step = 0;
    std::size_t next = 0;  // of its tasks; the one that runs or waits to
    double left = 0;       // seconds alone
    bool running = false;
    double free_since = 0;
    double started = 0;
  };

  void go_on() {
    start_what_can();
    advance_to_next_end();
  }

  TaskId current(std::size_t lane) const { return tasks_[lane][lanes_[lane].next]; }
  bool ended(const Wait& wait, int step) const {
    return ends_[static_cast<std::size_t>(wait.task)] > step - (wait.previous_step ? 1 : 0);
  }

  void start_what_can() {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      LaneState& state = lanes_[lane];
      if (state.running || tasks_[lane].empty() || state.step == kSteps) continue;
      const Task& task = program_.tasks[static_cast<std::size_t>(current(lane))];
      const bool ready = std::all_of(task.waits.begin(), task.waits.end(),
                                     [&](const Wait& wait) { return ended(wait, state.step); });
      if (!ready) continue;
      if (lane == kCompute && state.step == kSteps - 1) blame(task, state.free_since);
      state.running = true;
      state.started = now_;
      state.left = seconds_[static_cast<std::size_t>(current(lane))];
    }
  }

  // The compute lane stood still since then; the wait that ended last is the reason.
  void blame(const Task& task, double since) {
    std::size_t held_by = kCompute;
    double last = since;
    for (const Wait& wait : task.waits) {
      const double end = end_times_[static_cast<std::size_t>(wait.task)];
      if (end <= last) continue;
      last = end;
      held_by = static_cast<std::size_t>(program_.tasks[static_cast<std::size_t>(wait.task)].lane);
    }
    result_.exposed_seconds[held_by] += now_ - since;
  }

  void advance_to_next_end() {
    std::array<bool, kLanes.size()> running{};
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) running[lane] = lanes_[lane].running;
    const PerLane speeds = speeds_of(profile_, running);
    double until_end = std::numeric_limits<double>::infinity();
    std::size_t first = 0;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (!running[lane] || lanes_[lane].left / speeds[lane] >= until_end) continue;
      until_end = lanes_[lane].left / speeds[lane];
      first = lane;
    }
    if (!running[first]) throw std::invalid_argument("a program whose waits go in a circle");
    now_ += until_end;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (running[lane]) lanes_[lane].left -= until_end * speeds[lane];
    }
    end_task(first);
  }

  void end_task(std::size_t lane) {
    LaneState& state = lanes_[lane];
    const auto id = static_cast<std::size_t>(current(lane));
    ++ends_[id];
    end_times_[id] = now_;
    state.running = false;
    state.free_since = now_;
    if (keeps_spans_) spans_.push_back({current(lane), state.step, state.started, now_});
    if (++state.next < tasks_[lane].size()) return;
    state.next = 0;
    if (lane == kCompute) step_ends_[static_cast<std::size_t>(state.step)] = now_;
    ++state.step;
  }

  const Program& program_;
  const Profile& profile_;
  std::array<std::vector<TaskId>, kLanes.size()> tasks_;
  std::vector<double> seconds_;
  std::vector<int> ends_;          // how often each task has ended
  std::vector<double> end_times_;  // when it did last
  std::array<LaneState, kLanes.size()> lanes_{};
  std::array<double, kSteps> step_ends_{};
  double now_ = 0;
  Simulation result_;
  bool keeps_spans_ = false;
  std::vector<Span> spans_;
};

}  // namespace

Simulation simulate(const Program& program, const Profile& profile) {
  return Run(program, profile).simulate();
}

std::vector<Span> simulate_spans(const Program& program, const Profile& profile) {
  return Run(program, profile).spans();
}

}  // namespace ebb::plan
