#include "plan/trace.h"

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "base/json.h"
#include "plan/memory_curve.h"

namespace ebb::plan {
namespace {

constexpr std::size_t kPiece = 64 * 1024;
constexpr int kStepsTrack = 0;

std::string_view kind_of(const Trace& trace) {
  return trace.kind == Trace::Kind::measured ? "measured" : "predicted";
}

int track_of(Lane lane) { return kStepsTrack + 1 + lane.index; }

std::string in_json(std::string_view text) { return Json(text).dump(); }

// The text of the file, handed on as it grows.
class Events {
 public:
  Events(const Json& about, FunctionRef<void(std::string_view)> sink)
      : text_("{\"displayTimeUnit\": \"ms\",\n\"otherData\": " + about.dump() +
              ",\n\"traceEvents\": ["),
        sink_(sink) {}

  void add(std::string_view event) {
    text_ += any_ ? ",\n" : "\n";
    text_ += event;
    any_ = true;
    if (text_.size() < kPiece) return;
    sink_(text_);
    text_.clear();
  }
  void end() { sink_(text_ + "\n]}\n"); }

 private:
  std::string text_;
  FunctionRef<void(std::string_view)> sink_;
  bool any_ = false;
};

// Writes one process: the runs of one program.
class TraceWriter {
 public:
  TraceWriter(const Trace& trace, std::size_t index, Events& events)
      : trace_(trace),
        program_(trace.plan.program),
        measured_(trace.kind == Trace::Kind::measured),
        // Measured and predicted ones have other numbers, so that one view can hold both.
        process_((measured_ ? 1 : 2) + 2 * static_cast<int>(index)),
        events_(events) {
    for (const Task& task : program_.tasks) {
      names_.push_back(in_json(name_of(task, program_, trace.plan.workload)));
    }
    std::int64_t last = 0;
    for (const TimeSpan& span : trace.spans) last = std::max(last, span.step);
    first_step_ = last - trace.steps + 1;
    zero_ = std::numeric_limits<double>::infinity();
    for (const TimeSpan& span : trace.spans) {
      if (span.step >= first_step_) zero_ = std::min(zero_, span.start);
    }
  }

  // When the first span that is shown starts.
  double start() const { return zero_; }

  // Writes the events, with times that count from `zero`.
  void write(double zero) {
    zero_ = zero;
    name_tracks();
    for (const TimeSpan& span : trace_.spans) {
      if (span.step >= first_step_) write_task(span);
    }
    write_steps();
    const List<MemoryChange> curve = memory_curve(program_, trace_.spans);
    for (const Tier tier : topology().all_tiers()) write_memory(tier, curve);
  }

 private:
  const Topology& topology() const { return *program_.topology; }
  double microseconds(double seconds) const { return (seconds - zero_) * 1e6; }

  // What follows the process: "name": ... without braces.
  void event(char phase, std::string_view rest) {
    events_.add(fmt::format("{{\"ph\": \"{}\", \"pid\": {}, {}}}", phase, process_, rest));
  }

  // Threads of two processes must not have the same number.
  int thread(int track) const { return 100 * process_ + track; }

  void name_tracks() {
    const std::string verb = measured_ ? trace_.verb : "plan";
    event('M', fmt::format(R"("name": "process_name", "args": {{"name": "ebb {}{}, {}"}})", verb,
                           trace_.run == "step" ? "" : ", " + trace_.run, kind_of(trace_)));
    const auto name = [&](int track, std::string_view text) {
      event('M', fmt::format(R"("tid": {}, "name": "thread_name", "args": {{"name": "{}"}})",
                             thread(track), text));
      event('M',
            fmt::format(R"("tid": {}, "name": "thread_sort_index", "args": {{"sort_index": {}}})",
                        thread(track), track));
    };
    name(kStepsTrack, trace_.run + "s");
    for (const Lane lane : topology().all_lanes()) name(track_of(lane), topology()[lane].name);
  }

  void write_span(int track, std::string_view name, double start, double end,
                  std::string_view args) {
    event('X', fmt::format(R"("tid": {}, "name": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{{}}})",
                           thread(track), name, microseconds(start), 1e6 * (end - start), args));
  }

  void write_task(const TimeSpan& span) {
    const TaskId id = span.task;
    const Task& task = program_.tasks[id];
    std::string args = fmt::format(R"("step": {}, "task": {})", span.step, span.task);
    if (task.micro >= 0) args += fmt::format(R"(, "micro_batch": {})", task.micro);
    if (task.block >= 0) {
      const std::string& block = trace_.plan.workload.blocks[task.block].name;
      args += fmt::format(R"(, "block": {})", in_json(block));
    }
    if (task.chunk >= 0) args += fmt::format(R"(, "chunk": {})", task.chunk);
    if (task.moved > 0) args += fmt::format(R"(, "bytes": {})", task.moved);
    const Cost& cost = task.cost;
    const double flops =
        cost.flops + cost.narrow_flops + cost.attention_flops + cost.attention_backward_flops;
    if (flops > 0) args += fmt::format(R"(, "flops": {:.0f})", flops);
    write_span(track_of(task.lane), names_[id], span.start, span.end, args);
  }

  // A step is what the compute lane makes of it: from the end of the one before to its own.
  void write_steps() {
    std::map<std::int64_t, std::pair<double, double>> steps;  // first start and last end
    for (const TimeSpan& span : trace_.spans) {
      if (program_.tasks[span.task].lane != Lane::compute) continue;
      const auto [found, fresh] = steps.try_emplace(span.step, span.start, span.end);
      found->second.first = std::min(found->second.first, span.start);
      found->second.second = std::max(found->second.second, span.end);
    }
    for (auto step = steps.lower_bound(first_step_); step != steps.end(); ++step) {
      double start = step->second.first;
      if (step->first > first_step_ && step != steps.begin())
        start = std::prev(step)->second.second;
      write_span(kStepsTrack, in_json(fmt::format("{} {}", trace_.run, step->first)), start,
                 step->second.second, fmt::format(R"("step": {})", step->first));
    }
  }

  // One event for all changes of a moment; what was before the first one shown is part of it.
  void write_memory(Tier tier, const List<MemoryChange>& curve) {
    std::map<Purpose, Bytes> bytes;
    bool pending = false;
    double when = 0;
    for (const MemoryChange& change : curve) {
      if (change.tier != tier) continue;
      const double seconds = std::max(zero_, change.seconds);
      if (pending && seconds != when) write_bytes(tier, when, bytes);
      when = seconds;
      pending = true;
      bytes[change.purpose] += change.bytes;
    }
    if (pending) write_bytes(tier, when, bytes);
  }

  void write_bytes(Tier tier, double seconds, const std::map<Purpose, Bytes>& bytes) {
    Bytes all = 0;
    std::string args;
    for (const auto& [purpose, count] : bytes) {
      all += count;
      args += fmt::format(R"({}"{}": {})", args.empty() ? "" : ", ", name_of(purpose), count);
    }
    const auto counter = [&](std::string_view name, std::string_view values) {
      event('C', fmt::format(R"("name": "{} {}", "ts": {:.3f}, "args": {{{}}})",
                             topology()[tier].name, name, microseconds(seconds), values));
    };
    counter("memory", args);
    counter("memory in use", fmt::format(R"("bytes": {})", all));
  }

  const Trace& trace_;
  const Program& program_;
  const bool measured_;
  const int process_;
  Events& events_;
  List<std::string> names_;  // by task, quoted
  std::int64_t first_step_ = 0;
  double zero_ = 0;
};

Json about(std::span<const Trace> traces) {
  const Plan& plan = traces.front().plan;
  Json json = {{"times", kind_of(traces.front())}, {"speeds", plan.profile.name}};
  for (const Trace& trace : traces) {
    json[fmt::format("predicted_{}_seconds", trace.run)] = trace.plan.prediction.step_seconds;
  }
  for (const Tier tier : plan.program.topology->all_tiers()) {
    json[fmt::format("{}_arena_bytes", (*plan.program.topology)[tier].name)] =
        plan.layout.size_of(tier);
  }
  return json;
}

}  // namespace

std::string name_of(const Task& task, const Program& program, const Workload& work) {
  if (task.is_transfer()) {
    const Object& to = program[task.find(Role::destination)->object];
    return fmt::format("{} to {}", to.name, (*program.topology)[to.tier].name);
  }
  std::string name(name_of(task.op));
  std::replace(name.begin(), name.end(), '_', ' ');
  if (task.chunk >= 0) return fmt::format("{} chunk {}", name, task.chunk);
  // "embed embedding" would say it twice.
  if (task.block < 0 || !task.names_block) return name;
  // "attend block 1 attention" would, too, and "decode" is of both halves.
  const Block& block = work.blocks[task.block];
  std::string_view of = block.name;
  for (const std::string_view half : {" attention", " mlp"}) {
    if (block.half != LayerHalf::both && of.ends_with(half)) of.remove_suffix(half.size());
  }
  return fmt::format("{} {}", name, of);
}

Trace predicted_trace(const Plan& plan) {
  Trace trace{.kind = Trace::Kind::predicted,
              .plan = plan,
              .spans = simulate_spans(plan.program, plan.profile),
              .steps = 2};
  for (TimeSpan& span : trace.spans) ++span.step;  // people count from 1
  return trace;
}

void write_trace(std::span<const Trace> traces, FunctionRef<void(std::string_view)> sink) {
  Events events(about(traces), sink);
  List<TraceWriter> writers;
  for (const Trace& trace : traces) writers.emplace_back(trace, writers.size(), events);
  // What was measured has one clock. Simulations start at 0, each by itself.
  double first = std::numeric_limits<double>::infinity();
  for (const TraceWriter& writer : writers) first = std::min(first, writer.start());
  for (TraceWriter& writer : writers) {
    writer.write(traces.front().kind == Trace::Kind::measured ? first : writer.start());
  }
  events.end();
}

void write_trace(const Trace& trace, FunctionRef<void(std::string_view)> sink) {
  write_trace({&trace, 1}, sink);
}

}  // namespace ebb::plan
