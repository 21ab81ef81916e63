// A trace's promises, checked in the text of the file: every task of every step that is shown once
// and on its lane's track; no two at once on a track; none before what it waits for; never more
// bytes than the layout has.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "plan/trace.h"

namespace ebb::plan {

inline std::string text_of(const Trace& trace) {
  std::string text;
  write_trace(trace, [&](std::string_view piece) { text += piece; });
  return text;
}

class TraceCheck {
 public:
  // `tolerance` is how far the clocks of lanes may be apart, in seconds.
  TraceCheck(const std::string& text, const Plan& plan, double tolerance)
      : json_(parse_json(text, "a trace")),
        program_(plan.program),
        plan_(plan),
        tolerance_(1e6 * tolerance) {
    read();
  }

  // The steps that it shows, each with its time on the steps' track.
  const std::map<std::int64_t, double>& step_seconds() const { return step_seconds_; }

  // Start and end, in microseconds, by step and task.
  using Found = std::map<std::pair<std::int64_t, TaskId>, std::pair<double, double>>;
  const Found& found() const { return found_; }

  void expect_all() const {
    expect_every_task_once();
    expect_no_overlap();
    expect_waits_are_kept();
    expect_bytes_within_layout();
  }

  void expect_every_task_once() const {
    for (const auto& [step, seconds] : step_seconds_) {
      for (TaskId id = 0; id < static_cast<TaskId>(program_.tasks.size()); ++id) {
        EXPECT_EQ(found_.count({step, id}), 1u) << "task " << id << " of step " << step;
      }
    }
    EXPECT_EQ(found_.size(), step_seconds_.size() * program_.tasks.size());
  }

  void expect_no_overlap() const {
    for (const auto& [track, spans] : tracks_) {
      double end = 0;
      for (const auto& [start, stop] : spans) {  // sorted
        EXPECT_GE(start, end - kRounding) << "on " << track;
        end = stop;
      }
    }
  }

  void expect_waits_are_kept() const {
    std::size_t checked = 0;
    for (const auto& [key, times] : found_) {
      const auto& [step, id] = key;
      for (const Wait& wait : program_.tasks[static_cast<std::size_t>(id)].waits) {
        const auto other = found_.find({step - (wait.previous_step ? 1 : 0), wait.task});
        if (other == found_.end()) continue;  // of a step that is not shown
        ++checked;
        EXPECT_GE(times.first, other->second.second - kRounding - tolerance_)
            << fmt::format("task {} of step {} does not wait for {}", id, step, wait.task);
      }
    }
    EXPECT_GT(checked, 0u);
  }

  void expect_bytes_within_layout() const {
    for (const Tier tier : program_.topology->all_tiers()) {
      const std::string& name = (*program_.topology)[tier].name;
      const auto& bytes = in_use_.at(name);
      Bytes most = 0;
      for (const Bytes b : bytes) most = std::max(most, b);
      EXPECT_LE(most, plan_.layout.size_of(tier)) << name;
      Bytes persistent = 0;
      for (const Object& object : program_.objects) {
        if (object.persistent && object.tier == tier) persistent += object.bytes;
      }
      for (const Bytes b : bytes) ASSERT_GE(b, persistent) << name;
    }
    // And as much as the task that uses most.
    Bytes least = 0;
    for (const Task& task : program_.tasks) {
      Bytes touched = 0;
      std::set<ObjectId> seen;
      for (const Use& use : task.uses) {
        const Object& object = program_.objects[static_cast<std::size_t>(use.object)];
        if (object.tier == Tier::device && seen.insert(use.object).second) touched += object.bytes;
      }
      least = std::max(least, touched);
    }
    const auto& device = in_use_.at("device");
    EXPECT_GE(*std::max_element(device.begin(), device.end()), least);
  }

 private:
  // Times are written in thousandths of a microsecond.
  static constexpr double kRounding = 0.002;

  void read() {
    std::map<int, std::string> names;
    for (const Json& event : json_.at("traceEvents")) {
      if (event.at("ph") == "M" && event.at("name") == "thread_name") {
        names[event.at("tid")] = event.at("args").at("name");
      }
    }
    for (const Json& event : json_.at("traceEvents")) {
      if (event.at("ph") == "X") read_span(event, names.at(event.at("tid")));
      if (event.at("ph") == "C") read_counter(event);
    }
  }

  void read_span(const Json& event, const std::string& track) {
    const double start = event.at("ts");
    const double length = event.at("dur");
    EXPECT_GE(start, 0);
    EXPECT_GE(length, 0);
    tracks_[track].insert({start, start + length});
    const std::int64_t step = event.at("args").at("step");
    if (!event.at("args").contains("task")) {
      EXPECT_TRUE(step_seconds_.emplace(step, 1e-6 * length).second) << "step " << step;
      return;
    }
    const TaskId id = event.at("args").at("task");
    const Task& task = program_.tasks.at(static_cast<std::size_t>(id));
    EXPECT_EQ(track, (*program_.topology)[task.lane].name);
    EXPECT_EQ(event.at("name"), name_of(task, program_, plan_.workload));
    EXPECT_TRUE(found_.emplace(std::pair(step, id), std::pair(start, start + length)).second)
        << "task " << id << " of step " << step << " twice";
  }

  void read_counter(const Json& event) {
    const std::string name = event.at("name");
    const std::string tier = name.substr(0, name.find(' '));
    Bytes all = 0;
    for (const Json& value : event.at("args")) all += value.get<Bytes>();
    if (name == tier + " memory in use") {
      in_use_[tier].push_back(all);
    } else {
      EXPECT_EQ(name, tier + " memory");
    }
  }

  Json json_;
  const Program& program_;
  const Plan& plan_;
  double tolerance_;
  Found found_;
  std::map<std::string, std::multiset<std::pair<double, double>>> tracks_;
  std::map<std::string, std::vector<Bytes>> in_use_;
  std::map<std::int64_t, double> step_seconds_;
};

}  // namespace ebb::plan
