#include "plan/simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

namespace ebb::plan {
namespace {

// The first steps find the lanes empty. A lane that lags behind takes some steps until others wait
// for it; two that take the same time are the steady state.
constexpr int kFewestSteps = 3;
constexpr int kMostSteps = 16;
constexpr double kSame = 1e-4;
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
    while (!steady()) go_on();
    // A lane that is busy for longer than a step takes is waited for in the end, however much
    // later.
    const PerLane& busy = result_.busy_seconds;
    result_.step_seconds = std::max(step_seconds_, *std::max_element(busy.begin(), busy.end()));
    result_.pass_seconds = pass_seconds_;
    return result_;
  }

  int steps() const { return lanes_[kCompute].step; }

  // Of so many steps; the next begins beside the last.
  std::vector<Span> spans(int steps) {
    keeps_spans_ = true;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      while (!tasks_[lane].empty() && lanes_[lane].step < steps) go_on();
    }
    std::erase_if(spans_, [&](const Span& span) { return span.step >= steps; });
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

  bool steady() const {
    const int steps = lanes_[kCompute].step;
    return steps == kMostSteps ||
           (steps >= kFewestSteps &&
            std::abs(step_seconds_ - last_step_seconds_) <= kSame * step_seconds_);
  }
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
      // Steps are issued one after the other: nobody gets further ahead.
      const bool ahead = state.step > lanes_[kCompute].step + 1;
      if (state.running || tasks_[lane].empty() || ahead) continue;
      const Task& task = program_.tasks[static_cast<std::size_t>(current(lane))];
      const bool ready = std::all_of(task.waits.begin(), task.waits.end(),
                                     [&](const Wait& wait) { return ended(wait, state.step); });
      if (!ready) continue;
      if (lane == kCompute) blame(task, state.free_since);
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
    exposed_[held_by] += now_ - since;
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
    if (program_.tasks[id].op == Op::embed_backward) {
      pass_seconds_ = std::exchange(next_pass_seconds_, now_ - pass_end_);
      pass_end_ = now_;
    }
    state.running = false;
    state.free_since = now_;
    if (keeps_spans_) spans_.push_back({current(lane), state.step, state.started, now_});
    if (++state.next < tasks_[lane].size()) return;
    state.next = 0;
    ++state.step;
    if (lane != kCompute) return;
    last_step_seconds_ = std::exchange(step_seconds_, now_ - step_end_);
    step_end_ = now_;
    result_.exposed_seconds = std::exchange(exposed_, {});
  }

  const Program& program_;
  const Profile& profile_;
  std::array<std::vector<TaskId>, kLanes.size()> tasks_;
  std::vector<double> seconds_;
  std::vector<int> ends_;          // how often each task has ended
  std::vector<double> end_times_;  // when it did last
  std::array<LaneState, kLanes.size()> lanes_{};
  PerLane exposed_{};  // in this step so far
  double pass_end_ = 0, next_pass_seconds_ = 0, pass_seconds_ = 0;
  double step_end_ = 0, step_seconds_ = 0, last_step_seconds_ = 0;
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
  Run until_steady(program, profile);
  until_steady.simulate();
  return Run(program, profile).spans(until_steady.steps());
}

}  // namespace ebb::plan
