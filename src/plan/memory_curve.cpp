#include "plan/memory_curve.h"

#include <algorithm>
#include <limits>

namespace ebb::plan {
namespace {

// The spans in the order of issue, none of which starts before the ends that it waits for.
List<TimeSpan> in_order(const Program& program, std::span<const TimeSpan> given) {
  List<TimeSpan> spans(given.begin(), given.end());
  std::sort(spans.begin(), spans.end(), [](const TimeSpan& a, const TimeSpan& b) {
    return a.step != b.step ? a.step < b.step : a.task < b.task;
  });
  constexpr double never = -std::numeric_limits<double>::infinity();
  List<double> ends(program.tasks.size(), never);    // in the last step that has the task
  List<double> before(program.tasks.size(), never);  // and in the one before that
  PerLane<double> lanes;
  lanes.fill(never);
  std::int64_t step = 0;
  for (TimeSpan& span : spans) {
    if (span.step != step) before = ends;
    step = span.step;
    const Task& task = program.tasks[span.task];
    double& lane = lanes[task.lane];
    span.start = std::max(span.start, lane);
    for (const Wait& wait : task.waits) {
      span.start = std::max(span.start, (wait.previous_step ? before : ends)[wait.task]);
    }
    span.end = std::max(span.end, span.start);
    lane = ends[span.task] = span.end;
  }
  return spans;
}

// Bytes of an object from a task's start to its end. Other tasks may use others of its bytes, and
// those may be handed on before the rest.
struct Life {
  Bytes first = 0, behind = 0;
  double start = 0, end = 0;
};

// Each byte once, from the start of its first use to the end of its last.
List<Life> byte_by_byte(const List<Life>& uses) {
  List<Bytes> borders;
  for (const Life& use : uses) borders.insert(borders.end(), {use.first, use.behind});
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  List<Life> lives;
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    Life life{borders[i], borders[i + 1], std::numeric_limits<double>::infinity(),
              -std::numeric_limits<double>::infinity()};
    for (const Life& use : uses) {
      if (use.behind <= life.first || use.first >= life.behind) continue;
      life.start = std::min(life.start, use.start);
      life.end = std::max(life.end, use.end);
    }
    if (life.start <= life.end) lives.push_back(life);
  }
  return lives;
}

}  // namespace

List<MemoryChange> memory_curve(const Program& program, std::span<const TimeSpan> given) {
  List<MemoryChange> changes;
  if (given.empty()) return changes;
  const List<TimeSpan> spans = in_order(program, given);
  const auto add = [&](double seconds, const Object& object, Bytes bytes) {
    changes.push_back({seconds, object.tier, object.purpose, bytes});
  };
  double start = spans.front().start;
  for (const TimeSpan& span : spans) start = std::min(start, span.start);
  for (const Object& object : program.objects) {
    if (object.persistent) add(start, object, object.bytes);
  }

  List<List<Life>> uses(program.objects.size());
  const auto end_step = [&] {
    for (std::size_t i = 0; i < uses.size(); ++i) {
      for (const Life& life : byte_by_byte(uses[i])) {
        add(life.start, program.objects[i], life.behind - life.first);
        add(life.end, program.objects[i], life.first - life.behind);
      }
      uses[i].clear();
    }
  };
  std::int64_t step = spans.front().step;
  for (const TimeSpan& span : spans) {
    if (span.step != step) end_step();
    step = span.step;
    for (const Use& use : program.tasks[span.task].uses) {
      if (program.objects[use.object].persistent) continue;
      const Range range = program.range_of(use);
      uses[use.object].push_back({range.first, range.first + range.bytes, span.start, span.end});
    }
  }
  end_step();
  std::sort(changes.begin(), changes.end(), [](const MemoryChange& a, const MemoryChange& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
  });
  return changes;
}

}  // namespace ebb::plan
