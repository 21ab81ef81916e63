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

// Bytes of an object from a task's start to its end. Other tasks may use others of its bytes, and
// those may be handed on before the rest.
struct Life {
  Bytes first = 0, behind = 0;
  double start = 0, end = 0;
};

// Each byte once, from the start of its first use to the end of its last.
std::vector<Life> byte_by_byte(const std::vector<Life>& uses) {
  std::vector<Bytes> borders;
  for (const Life& use : uses) borders.insert(borders.end(), {use.first, use.behind});
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<Life> lives;
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

  std::vector<std::vector<Life>> uses(program.objects.size());
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
  for (const Span& span : spans) {
    if (span.step != step) end_step();
    step = span.step;
    for (const Use& use : program.tasks[at(span.task)].uses) {
      if (program.objects[at(use.object)].persistent) continue;
      const Range range = program.range_of(use);
      uses[at(use.object)].push_back(
          {range.first, range.first + range.bytes, span.start, span.end});
    }
  }
  end_step();
  std::sort(changes.begin(), changes.end(), [](const MemoryChange& a, const MemoryChange& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.bytes < b.bytes;
  });
  return changes;
}

}  // namespace ebb::plan
