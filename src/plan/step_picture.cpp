#include "plan/step_picture.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

#include "base/json.h"
#include "plan/choice_table.h"
#include "plan/memory_curve.h"
#include "plan/utilization.h"

namespace ebb::plan {
namespace {

constexpr std::int64_t kTicks = 1'000'000;  // of a step
// A lane of more spans has those joined that lie within one of so many parts of the step; a tier's
// moments likewise.
constexpr std::size_t kMostSpans = 4000;
constexpr std::int64_t kSpanParts = 4000;
constexpr std::size_t kMostMoments = 3000;
constexpr std::int64_t kMomentParts = 1000;

// The places of texts in the order of their first use.
class Texts {
 public:
  int place_of(const std::string& text) {
    const auto [found, fresh] = places_.try_emplace(text, static_cast<int>(list_.size()));
    if (fresh) list_.push_back(text);
    return found->second;
  }
  const Json& list() const { return list_; }

 private:
  std::map<std::string, int> places_;
  Json list_ = Json::array();
};

struct Window {
  std::int64_t step = 0;
  double start = 0, end = 0;

  double seconds() const { return end - start; }
  std::int64_t tick(double moment) const {
    const double share = (std::clamp(moment, start, end) - start) / std::max(seconds(), 1e-12);
    return static_cast<std::int64_t>(share * static_cast<double>(kTicks) + 0.5);
  }
};

Window window_of(const Trace& trace) {
  struct Times {
    double first_start = std::numeric_limits<double>::infinity();
    double compute_end = -std::numeric_limits<double>::infinity();
    double last_end = -std::numeric_limits<double>::infinity();
  };
  std::map<std::int64_t, Times> steps;
  for (const TimeSpan& span : trace.spans) {
    Times& times = steps[span.step];
    times.first_start = std::min(times.first_start, span.start);
    times.last_end = std::max(times.last_end, span.end);
    if (trace.plan.program.tasks[span.task].lane == Lane::compute) {
      times.compute_end = std::max(times.compute_end, span.end);
    }
  }
  auto shown = std::prev(steps.end());
  // A simulation's last step is the one that was predicted. Of measured ones that is shown which
  // has the beginning of the next one beside its end, and no validation or save in it: the
  // shortest.
  if (trace.kind == Trace::Kind::measured && steps.size() > 2) {
    double least = std::numeric_limits<double>::infinity();
    for (auto step = std::next(steps.begin()); std::next(step) != steps.end(); ++step) {
      const double seconds = step->second.compute_end - std::prev(step)->second.compute_end;
      if (seconds >= least) continue;
      least = seconds;
      shown = step;
    }
  }
  Window window{shown->first, shown->second.first_start, shown->second.compute_end};
  if (shown != steps.begin()) {
    window.start = std::prev(shown)->second.compute_end;
  } else {
    window.end = shown->second.last_end;
  }
  window.end = std::max(window.end, window.start);
  return window;
}

// Transfers are told apart by what they move, computations by what they do.
std::string kind_of(const Task& task, const Program& program) {
  if (!task.is_transfer()) return std::string(name_of(task.op));
  return std::string(name_of(program[task.find(Role::destination)->object].purpose));
}

struct Shown {
  std::int64_t start = 0, end = 0;
  TaskId task = -1;
  std::int64_t joined = 0;
};

// In the order of time. What begins and ends in one part of the step is joined.
List<Shown> join(const List<Shown>& spans) {
  if (spans.size() <= kMostSpans) return spans;
  constexpr std::int64_t part = kTicks / kSpanParts;
  List<Shown> joined;
  for (const Shown& span : spans) {
    const bool fits = !joined.empty() && joined.back().start / part == span.end / part;
    if (!fits) {
      joined.push_back(span);
      continue;
    }
    joined.back().end = std::max(joined.back().end, span.end);
    ++joined.back().joined;
  }
  return joined;
}

Json lanes_json(const Trace& trace, const Window& window, Texts& names, Texts& kinds) {
  const Program& program = trace.plan.program;
  PerLane<List<Shown>> shown;
  PerLane<double> busy{};
  for (const TimeSpan& span : trace.spans) {
    if (span.end <= window.start || span.start >= window.end) continue;
    const Lane lane = program.tasks[span.task].lane;
    busy[lane] += std::min(span.end, window.end) - std::max(span.start, window.start);
    shown[lane].push_back({window.tick(span.start), window.tick(span.end), span.task});
  }
  Json lanes = Json::array();
  for (const Lane lane : program.topology->all_lanes()) {
    List<Shown>& all = shown[lane];
    std::sort(all.begin(), all.end(),
              [](const Shown& a, const Shown& b) { return a.start < b.start; });
    Json spans = Json::array();
    for (const Shown& span : join(all)) {
      const Task& task = program.tasks[span.task];
      Json one = {span.start, span.end - span.start,
                  names.place_of(name_of(task, program, trace.plan.workload)),
                  kinds.place_of(kind_of(task, program))};
      if (span.joined > 0) one.push_back(span.joined);
      spans.push_back(std::move(one));
    }
    lanes.push_back({{"name", (*program.topology)[lane].name},
                     {"busy_seconds", busy[lane]},
                     {"spans", std::move(spans)}});
  }
  return lanes;
}

struct Moment {
  std::int64_t tick = 0;
  std::array<Bytes, kPurposes.size()> bytes{};

  Bytes all() const { return std::accumulate(bytes.begin(), bytes.end(), Bytes{0}); }
};

// The fullest and the emptiest moment of each part of the step, and the last one, whose bytes hold
// into the next.
List<Moment> thin(const List<Moment>& moments) {
  if (moments.size() <= kMostMoments) return moments;
  constexpr std::int64_t part = kTicks / kMomentParts;
  List<Moment> kept;
  for (std::size_t first = 0; first < moments.size();) {
    std::size_t behind = first, fullest = first, emptiest = first;
    for (; behind < moments.size() && moments[behind].tick / part == moments[first].tick / part;
         ++behind) {
      if (moments[behind].all() > moments[fullest].all()) fullest = behind;
      if (moments[behind].all() < moments[emptiest].all()) emptiest = behind;
    }
    std::array<std::size_t, 3> places = {fullest, emptiest, behind - 1};
    std::sort(places.begin(), places.end());
    const auto end = std::unique(places.begin(), places.end());
    std::for_each(places.begin(), end, [&](std::size_t at) { kept.push_back(moments[at]); });
    first = behind;
  }
  return kept;
}

// Changes of one moment are one row; those before the window are part of its first row.
List<Moment> moments_of(const List<MemoryChange>& curve, Tier tier, const Window& window) {
  List<Moment> moments = {Moment{}};
  for (const MemoryChange& change : curve) {
    if (change.tier != tier || change.seconds >= window.end) continue;
    const std::int64_t tick = window.tick(change.seconds);
    if (moments.back().tick != tick) {
      moments.push_back(moments.back());
      moments.back().tick = tick;
    }
    moments.back().bytes[static_cast<std::size_t>(change.purpose)] += change.bytes;
  }
  return thin(moments);
}

Json memory_json(const Trace& trace, const Window& window) {
  const Plan& plan = trace.plan;
  const List<MemoryChange> curve = memory_curve(plan.program, trace.spans);
  Json tiers = Json::array();
  for (const Tier tier : plan.program.topology->all_tiers()) {
    const List<Moment> moments = moments_of(curve, tier, window);
    Json ticks = Json::array(), purposes = Json::array(), bytes = Json::array();
    for (const Moment& moment : moments) ticks.push_back(moment.tick);
    for (std::size_t p = 0; p < kPurposes.size(); ++p) {
      Json column = Json::array();
      for (const Moment& moment : moments) column.push_back(moment.bytes[p]);
      const bool any =
          std::ranges::any_of(moments, [&](const Moment& m) { return m.bytes[p] > 0; });
      if (!any) continue;
      purposes.push_back(name_of(static_cast<Purpose>(p)));
      bytes.push_back(std::move(column));
    }
    tiers.push_back({{"tier", (*plan.program.topology)[tier].name},
                     {"limit", plan.limits[tier]},
                     {"arena", plan.layout.size_of(tier)},
                     {"beside", beside_arena(plan.program, plan.workload, tier)},
                     {"purposes", std::move(purposes)},
                     {"ticks", std::move(ticks)},
                     {"bytes", std::move(bytes)}});
  }
  return tiers;
}

}  // namespace

Json step_picture(const Trace& all) {
  if (all.spans.empty()) return nullptr;
  const Window window = window_of(all);
  // Steps overlap with their neighbours alone. Behind the last one of a simulation the same again
  // would follow, and begin before its end.
  Trace trace = all;
  std::erase_if(trace.spans, [&](const TimeSpan& span) {
    return span.step < window.step - 1 || span.step > window.step + 1;
  });
  if (trace.kind == Trace::Kind::predicted) {
    for (const TimeSpan& span : all.spans) {
      if (span.step != window.step) continue;
      trace.spans.push_back(
          {span.task, span.step + 1, span.start + window.seconds(), span.end + window.seconds()});
    }
  }
  Texts names, kinds;
  Json lanes = lanes_json(trace, window, names, kinds);
  return {{"kind", trace.kind == Trace::Kind::measured ? "measured" : "predicted"},
          {"step", window.step},
          {"seconds", window.seconds()},
          {"tick_seconds", window.seconds() / static_cast<double>(kTicks)},
          {"names", names.list()},
          {"kinds", kinds.list()},
          {"lanes", std::move(lanes)},
          {"memory", memory_json(trace, window)}};
}

Json plan_json(const Plan& plan, const std::string& words) {
  const Topology& topology = *plan.workload.topology;
  Json tiers = Json::array(), lanes = Json::array();
  for (const Tier tier : topology.all_tiers()) {
    tiers.push_back({{"name", topology[tier].name},
                     {"limit", plan.limits[tier]},
                     {"predicted_peak", plan.peak(tier)}});
  }
  for (const Lane lane : topology.all_lanes()) {
    lanes.push_back({{"name", topology[lane].name},
                     {"busy_seconds", plan.prediction.busy_seconds[lane]},
                     {"exposed_seconds", plan.prediction.exposed_seconds[lane]}});
  }
  return {{"format", "ebb plan"},
          {"version", 1},
          {"machine", plan.profile.name},
          {"device", plan.profile.device},
          {"parameters", plan.workload.parameters()},
          {"tokens_per_step", plan.workload.tokens * plan.workload.micro_batches},
          {"step_seconds", plan.prediction.step_seconds},
          {"tokens_per_second", plan.tokens_per_second()},
          {"utilization", utilization(plan, plan.prediction.step_seconds)},
          {"flags", flags_of(plan.choices)},
          {"words", words},
          {"tiers", std::move(tiers)},
          {"lanes", std::move(lanes)},
          {"step", step_picture(predicted_trace(plan))}};
}

}  // namespace ebb::plan
