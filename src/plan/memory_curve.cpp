#include "plan/memory_curve.h"

#include <algorithm>
#include <limits>

namespace ebb::plan {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The spans in the order of issue, none of which starts before the ends that it waits for.
std::vector<Span> in_order(const Program& program, std::span<const Span> given) {
  std::vector<Span> spans(given.begin(), given.end());
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return a.step != b.step ? a.step < b.step : a.task < b.task;
  });
  constexpr double never = -std::numeric_limits<double>::infinity();
  std::vector<double> ends(program.tasks.size(), never);    // in the last step that has the task
  std::vector<double> before(program.tasks.size(), never);  // and in the one before that
  PerLane<double> lanes;
  lanes.fill(never);
  std::int64_t step = 0;
  for (Span& span : spans) {
    if (span.step != step) before = ends;
    step = span.step;
    const Task& task = program.tasks[at(span.task)];
    double& lane = lanes[task.lane];
    span.start = std::max(span.start, lane);
    for (const Wait& wait : task.waits) {
      span.start = std::max(span.start, (wait.previous_step ? before : ends)[at(wait.task)]);
    }
    span.end = std::max(span.end, span.start);
    lane = ends[at(span.task)] = span.end;
  }
  return spans;
}

struct Life {
  double start = std::numeric_limits<double>::infinity();
  double end = -std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<MemoryChange> memory_curve(const Program& program, std::span<const Span> given) {
  std::vector<MemoryChange> changes;
  if (given.empty()) return changes;
  const std::vector<Span> spans = in_order(program, given);
  const auto add = [&](double seconds, const Object& object, Bytes bytes) {
    changes.push_back({seconds, object.tier, object.purpose, bytes});
  };
  double start = spans.front().start;
  for (const Span& span : spans) start = std::min(start, span.start);
  for (const Object& object : program.objects) {
    if (object.persistent) add(start, object, object.bytes);
  }

  std::vector<Life> lives(program.objects.size());
  const auto end_step = [&] {
    for (std::size_t i = 0; i < lives.size(); ++i) {
      if (lives[i].end < lives[i].start) continue;
      add(lives[i].start, program.objects[i], program.objects[i].bytes);
      add(lives[i].end, program.objects[i], -program.objects[i].bytes);
      lives[i] = {};
    }
  };
  std::int64_t step = spans.front().step;
  for (const Span& span : spans) {
    if (span.step != step) end_step();
    step = span.step;
    for (const Use& use : program.tasks[at(span.task)].uses) {
      if (program.objects[at(use.object)].persistent) continue;
      Life& life = lives[at(use.object)];
      life.start = std::min(life.start, span.start);
      life.end = std::max(life.end, span.end);
    }
  }
  end_step();
  std::sort(changes.begin(), changes.end(), [](const MemoryChange& a, const MemoryChange& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
  });
  return changes;
}

}  // namespace ebb::plan
