#include "plan/simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

namespace ebb::plan {
namespace {

// The first steps find the lanes empty. A lane that lags behind takes some steps until others wait
// for it; two that take the same time are the steady state.
constexpr int kFewestSteps = 3;
constexpr int kMostSteps = 16;
constexpr double kSame = 1e-4;

// How fast each running lane gets on, as a share of its speed when it runs alone: `draws` is what
// the lanes' tasks draw from what is shared, nothing of a lane that stands still.
std::array<double, kMostLanes> speeds_of(const Profile& profile, std::span<const Draw> draws) {
  std::array<double, kMostLanes> speeds;
  speeds.fill(1.0);
  for (const Shared& shared : profile.shared) {
    double wanted = 0;
    for (std::size_t lane = 0; lane < draws.size(); ++lane) {
      wanted += shared.wants_of(draws[lane]) * speeds[lane];
    }
    if (wanted <= shared.capacity) continue;
    // A task that wants less than its part leaves the rest to the others.
    double left = shared.capacity;
    std::array<bool, kMostLanes> served{};
    const auto weight = [&](std::size_t lane) {
      const double beside = shared.beside_of(draws[lane]);
      return beside > 0 ? beside : shared.wants_of(draws[lane]) * speeds[lane];
    };
    for (bool again = true; again;) {
      again = false;
      double weights = 0;
      for (std::size_t lane = 0; lane < draws.size(); ++lane) {
        if (!served[lane]) weights += weight(lane);
      }
      const double part = left / weights;  // for a weight of one
      for (std::size_t lane = 0; lane < draws.size(); ++lane) {
        const double wants = shared.wants_of(draws[lane]) * speeds[lane];
        if (served[lane] || wants > part * weight(lane)) continue;
        served[lane] = true;
        left -= wants;
        again = again || wants > 0;
      }
      for (std::size_t lane = 0; !again && lane < draws.size(); ++lane) {
        if (!served[lane]) speeds[lane] = part * weight(lane) / shared.wants_of(draws[lane]);
      }
    }
  }
  return speeds;
}

class Run {
 public:
  Run(const Program& program, const Profile& profile)
      : program_(program),
        profile_(profile),
        tasks_(program.topology->lanes.size()),
        ends_(program.tasks.size(), 0),
        end_times_(program.tasks.size(), 0.0),
        lanes_(program.topology->lanes.size()) {
    for (std::size_t i = 0; i < program.tasks.size(); ++i) {
      const Task& task = program.tasks[i];
      tasks_[task.lane.index].push_back(static_cast<TaskId>(i));
      seconds_.push_back(predicted_seconds(task, (*program.topology)[task.lane], profile));
      result_.busy_seconds[task.lane] += seconds_.back();
    }
    // A step is the compute lane's, or the CPU's where that computes all.
    for (const std::size_t lane : {Lane::compute.index, Lane::host.index}) {
      if (lane >= tasks_.size() || tasks_[lane].empty()) continue;
      pace_ = lane;
      return;
    }
    throw std::invalid_argument("a program that computes nothing");
  }

  Simulation simulate() {
    while (!steady()) go_on();
    // A lane that is busy for longer than a step takes is waited for in the end, however much
    // later.
    const auto& busy = result_.busy_seconds.values;
    result_.step_seconds = std::max(step_seconds_, *std::max_element(busy.begin(), busy.end()));
    result_.pass_seconds = pass_seconds_;
    return result_;
  }

  int steps() const { return lanes_[pace_].step; }

  // When tasks run in so many steps; the next begins beside the last.
  List<TimeSpan> spans(int steps) {
    keeps_spans_ = true;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      while (!tasks_[lane].empty() && lanes_[lane].step < steps) go_on();
    }
    std::erase_if(spans_, [&](const TimeSpan& span) { return span.step >= steps; });
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
    const int steps = lanes_[pace_].step;
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
    return ends_[wait.task] > step - (wait.previous_step ? 1 : 0);
  }

  void start_what_can() {
    // Steps are issued one after the other, and none before all lanes have ended the last but one.
    int behind = kMostSteps;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (!tasks_[lane].empty()) behind = std::min(behind, lanes_[lane].step);
    }
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      LaneState& state = lanes_[lane];
      const bool ahead = state.step > behind + 1;
      if (state.running || tasks_[lane].empty() || ahead) continue;
      const Task& task = program_.tasks[current(lane)];
      const bool ready = std::all_of(task.waits.begin(), task.waits.end(),
                                     [&](const Wait& wait) { return ended(wait, state.step); });
      if (!ready) continue;
      if (lane == pace_) blame(task, state.free_since);
      state.running = true;
      state.started = now_;
      state.left = seconds_[current(lane)];
    }
  }

  // The compute lane stood still since then; the wait that ended last is the reason.
  void blame(const Task& task, double since) {
    Lane held_by{static_cast<std::uint8_t>(pace_)};
    double last = since;
    for (const Wait& wait : task.waits) {
      const double end = end_times_[wait.task];
      if (end <= last) continue;
      last = end;
      held_by = program_.tasks[wait.task].lane;
    }
    exposed_[held_by] += now_ - since;
  }

  void advance_to_next_end() {
    std::array<Draw, kMostLanes> draws;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      const bool running = lanes_[lane].running;
      draws[lane] = running ? program_.tasks[current(lane)].draw : Draw::nothing;
    }
    const auto speeds = speeds_of(profile_, {draws.data(), lanes_.size()});
    double until_end = std::numeric_limits<double>::infinity();
    std::size_t first = 0;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (!lanes_[lane].running || lanes_[lane].left / speeds[lane] >= until_end) continue;
      until_end = lanes_[lane].left / speeds[lane];
      first = lane;
    }
    if (!lanes_[first].running) throw std::invalid_argument("a program with a dependency cycle");
    now_ += until_end;
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      if (lanes_[lane].running) lanes_[lane].left -= until_end * speeds[lane];
    }
    end_task(first);
  }

  void end_task(std::size_t lane) {
    LaneState& state = lanes_[lane];
    const auto id = current(lane);
    ++ends_[id];
    end_times_[id] = now_;
    if (program_.tasks[id].ends_pass) {
      pass_seconds_ = std::exchange(next_pass_seconds_, now_ - pass_end_);
      pass_end_ = now_;
    }
    state.running = false;
    state.free_since = now_;
    if (keeps_spans_) spans_.push_back({current(lane), state.step, state.started, now_});
    if (++state.next < tasks_[lane].size()) return;
    state.next = 0;
    ++state.step;
    if (lane != pace_) return;
    last_step_seconds_ = std::exchange(step_seconds_, now_ - step_end_);
    step_end_ = now_;
    result_.exposed_seconds = std::exchange(exposed_, {});
  }

  const Program& program_;
  const Profile& profile_;
  std::size_t pace_ = 0;      // the lane whose steps are timed
  List<List<TaskId>> tasks_;  // by lane
  List<double> seconds_;
  List<int> ends_;          // how often each task has ended
  List<double> end_times_;  // when it did last
  List<LaneState> lanes_;
  PerLane<double> exposed_{};  // in this step so far
  double pass_end_ = 0, next_pass_seconds_ = 0, pass_seconds_ = 0;
  double step_end_ = 0, step_seconds_ = 0, last_step_seconds_ = 0;
  double now_ = 0;
  Simulation result_;
  bool keeps_spans_ = false;
  List<TimeSpan> spans_;
};

}  // namespace

Simulation simulate(const Program& program, const Profile& profile) {
  return Run(program, profile).simulate();
}

List<TimeSpan> simulate_spans(const Program& program, const Profile& profile) {
  Run until_steady(program, profile);
  until_steady.simulate();
  return Run(program, profile).spans(until_steady.steps());
}

}  // namespace ebb::plan
