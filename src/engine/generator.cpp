#include "engine/generator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "engine/rotary_table.h"
#include "engine/workload.h"
#include "kernels/split_master.h"
#include "plan/generation_program.h"

namespace ebb::engine {

using plan::Op;
using plan::Role;

namespace {

// Numbers of the executor's programs.
constexpr std::size_t kSlice = 0;
constexpr std::size_t kToken = 1;

plan::TaskId choosing_task(const plan::Program& program) {
  const auto found = std::ranges::find(program.tasks, Op::choose_tokens, &plan::Task::op);
  return static_cast<plan::TaskId>(found - program.tasks.begin());
}

}  // namespace

Generator::Generator(Runtime& runtime, io::FileSystem& files, const files::ModelSource& source,
                     const GeneratorSettings& settings)
    : runtime_(runtime),
      dtype_(settings.dtype),
      positions_(settings.positions),
      trace_runs_(settings.trace_runs),
      parameters_(model::parameters_of(settings.config, model::BlockCut::halves)),
      decoder_(settings.config, dtype_, dtype_, {}, model::BlockCut::halves),
      layout_(weight_layout(settings, parameters_)),
      kept_(settings.kept),
      plan_(plan_generation(runtime, settings)),
      memory_(runtime, plan_.slice, settings.make_space),
      lengths_(settings.sequences, 0),
      chosen_(settings.sequences, 0),
      executor_(runtime.device(), memory_.spaces(),
                {{&plan_.slice.program, &plan_.slice.layout,
                  [this](exec::TaskRun& run) { run_task(run, kSlice); }},
                 {&plan_.token.program, &plan_.token.layout,
                  [this](exec::TaskRun& run) { run_task(run, kToken); }}},
                settings.disturbance) {
  // Both programs have the same persistent objects at the same addresses: filled through one, read
  // by both.
  const plan::PersistentObjects& objects = plan_.slice.program.persistent;
  for (const plan::ObjectId tables : {objects.tables, objects.host_tables}) {
    if (tables >= 0) fill_rotary_table(executor_, tables, decoder_, positions_);
  }
  // A cache is taken whole, however long the texts are.
  for (const plan::ObjectId cache : objects.caches) {
    if (cache >= 0) executor_.address(cache, plan_.slice.program[cache].bytes);
  }
  load(files, source);
  if (trace_runs_ == 0) return;
  for (const std::size_t program : {kSlice, kToken}) executor_.keep_times(trace_runs_, program);
}

void Generator::load(io::FileSystem& files, const files::ModelSource& source) {
  std::vector<bf16> halves;
  const files::WeightSink sink = [&](int p, std::int64_t first, std::span<const float> values) {
    const model::Parameter& parameter = parameters_.all[to_size(p)];
    const auto count = static_cast<std::int64_t>(values.size());
    const void* from = values.data();
    if (dtype_ == DType::bf16) {
      // As training splits its masters, so that both compute with the same weights.
      halves.resize(values.size());
      std::transform(values.begin(), values.end(), halves.begin(),
                     [](float value) { return kernels::split_master(value).high; });
      from = halves.data();
    }
    // Tensors come in pieces, so that the host holds one piece and never a whole tensor. Each goes
    // straight to where its block's weights live.
    const Bytes element = size_of(dtype_);
    const Bytes place = layout_ ? (*layout_)[parameter.block].offset_of(parameter.first)
                                : parameter.first * element;
    executor_.write_now(plan_.slice.program.persistent.weights[parameter.block],
                        place + first * element, from, count * element);
  };
  const files::StoredSink stored = [&](int p, Bytes first, std::span<const std::byte> bytes) {
    const model::Parameter& parameter = parameters_.all[p];
    executor_.write_now(plan_.slice.program.persistent.weights[parameter.block],
                        (*layout_)[parameter.block].offset_of(parameter.first) + first,
                        bytes.data(), static_cast<Bytes>(bytes.size()));
  };
  if (!source.has_weights()) {
    files::initialize_weights(runtime_.pool(), source.config, parameters_, 0, sink);
  } else {
    files::load_weights(files, source, parameters_, sink, kept_, stored);
  }
}

std::span<const float> Generator::advance(std::span<const std::int32_t> tokens, int sequence) {
  while (!tokens.empty()) {
    const auto slice = tokens.first(std::min(to_size(plan_.slice.workload.tokens), tokens.size()));
    queue(slice, sequence, false);
    tokens = tokens.subspan(slice.size());
  }
  drain();
  return logits_of(1);
}

std::span<const float> Generator::advance_each(std::span<const Token> tokens) {
  queue_each(tokens, false);
  drain();
  return logits_of(std::ssize(tokens));
}

std::span<const float> Generator::logits_of(std::int64_t rows) {
  const plan::ObjectId report = plan_.slice.program.persistent.report;
  const Bytes bytes = rows * plan_.slice.workload.logits;
  return {reinterpret_cast<const float*>(executor_.address(report, bytes)),
          to_size(rows * decoder_.config().vocabulary)};
}

void Generator::queue(std::span<const std::int32_t> tokens, int sequence, bool choose) {
  // One token is computed as those are that follow.
  const std::size_t program = tokens.size() == 1 ? kToken : kSlice;
  Run& run = next_run(program);
  add(run, sequence, std::ssize(tokens));
  run.ids.assign(tokens.begin(), tokens.end());
  run.choose = choose;
  issue(program, run);
}

void Generator::queue_each(std::span<const Token> tokens, bool choose) {
  Run& run = next_run(kToken);
  for (const Token& token : tokens) {
    add(run, token.sequence, 1);
    run.ids.push_back(token.id);
  }
  run.choose = choose;
  issue(kToken, run);
}

void Generator::queue_chosen(std::span<const int> sequences) {
  Run& run = next_run(kToken);
  for (const int sequence : sequences) add(run, sequence, 1);
  run.choose = true;
  issue(kToken, run);
}

// The run that had this place before has ended: two at most are under way.
Generator::Run& Generator::next_run(std::size_t program) {
  Run& run = runs_[program][to_size(executor_.steps_issued(program)) % kRing];
  run.numbers.clear();
  run.sequences.clear();
  run.ids.clear();
  run.choose = false;
  run.tokens = 0;
  return run;
}

void Generator::add(Run& run, int sequence, std::int64_t tokens) {
  const std::int64_t start = lengths_.at(to_size(sequence));
  if (start + tokens > positions_) {
    throw ConfigError(fmt::format("the sequence is full: {} positions", positions_));
  }
  run.numbers.push_back(sequence);
  run.sequences.push_back({.start = start, .length = tokens});
  run.tokens += tokens;
}

void Generator::issue(std::size_t program, const Run& run) {
  const Bytes row = decoder_.cache_row_bytes();
  const plan::Workload& work = plan_.slice.workload;
  arguments_.assign(plan::cached_bytes(program == kSlice ? 2 : work.sequences), 0);
  arguments_[plan::kTokenBytes] = run.tokens * 4;
  arguments_[plan::kStreamBytes] = run.tokens * decoder_.config().hidden * size_of(dtype_);
  arguments_[plan::kLogitBytes] = std::ssize(run.numbers) * work.logits;
  for (std::size_t i = 0; i < run.numbers.size(); ++i) {
    const Bytes before = run.sequences[i].start * row, added = run.sequences[i].length * row;
    if (program == kSlice) {
      const Bytes start =
          run.numbers[i] * GenerationShape{.positions = positions_}.sequence_cache(row);
      arguments_[plan::kCacheBytes] = before;
      arguments_[plan::kAddedBytes] = added;
      arguments_[plan::kCacheStart] = start;
      arguments_[plan::kCacheEnd] = start + before;
    } else {
      arguments_[plan::cached_bytes(run.numbers[i])] = before;
      arguments_[plan::added_bytes(run.numbers[i])] = added;
    }
  }
  overlaps_ = program == last_program_ && executor_.steps_issued(program) > 0;
  last_program_ = program;
  executor_.issue(program, arguments_);
  for (std::size_t i = 0; i < run.numbers.size(); ++i) {
    lengths_[run.numbers[i]] += run.sequences[i].length;
  }
}

// Where another program's run came before, the lanes were empty when the last one was queued.
void Generator::wait_for_others() {
  if (!overlaps_) return;
  const plan::Plan& plan = last_program_ == kSlice ? plan_.slice : plan_.token;
  executor_.wait(choosing_task(plan.program), last_program_, 1);
}

void Generator::abandon() {
  abandoned_ = true;
  drain();
  abandoned_ = false;
}

// Keys and values behind the length are overwritten before anything reads them: attention looks no
// further than the tokens of the call.
void Generator::keep(std::int64_t length, int sequence) {
  if (length < 0 || length > lengths_.at(to_size(sequence))) {
    throw Error(fmt::format("cannot keep {} of {} tokens", length, lengths_.at(to_size(sequence))));
  }
  lengths_[sequence] = length;
}

void Generator::copy(int from, int to, std::int64_t length) {
  if (from == to || length < 0 || length > lengths_.at(to_size(from))) {
    throw Error(fmt::format("cannot copy {} of {} tokens from sequence {} to {}", length,
                            lengths_.at(to_size(from)), from, to));
  }
  drain();
  const Bytes row = decoder_.cache_row_bytes();
  const Bytes each = GenerationShape{.positions = positions_}.sequence_cache(row);
  for (const plan::ObjectId cache : plan_.slice.program.persistent.caches) {
    if (cache >= 0) executor_.copy_now(cache, from * each, to * each, length * row);
  }
  lengths_.at(to_size(to)) = length;
}

std::vector<plan::Trace> Generator::trace() const {
  std::vector<plan::Trace> traces;
  const auto add = [&](const plan::Plan& plan, std::size_t program, const char* run) {
    traces.push_back({.kind = plan::Trace::Kind::measured,
                      .plan = plan,
                      .spans = executor_.spans(program),
                      .steps = trace_runs_,
                      .verb = "generate",
                      .run = run});
    for (plan::TimeSpan& span : traces.back().spans) ++span.step;  // people count from 1
  };
  add(plan_.slice, kSlice, "slice");
  add(plan_.token, kToken, "token");
  return traces;
}

void Generator::run_task(exec::TaskRun& run, std::size_t program) {
  if (abandoned_) return;
  const Call call{run, program == kSlice ? plan_.slice.workload : plan_.token.workload,
                  runs_[program][to_size(run.step) % kRing]};
  switch (run.task.op) {
    case Op::take_tokens: return take_tokens(call);
    case Op::choose_tokens: return choose_tokens(call);
    default: return compute(call);
  }
}

void Generator::take_tokens(const Call& call) const {
  auto* const to = reinterpret_cast<std::int32_t*>(call.task.write(Role::batch, call.work.batch));
  if (!call.run.ids.empty()) {
    std::ranges::copy(call.run.ids, to);
  } else {
    std::ranges::transform(call.run.numbers, to, [&](int s) { return chosen_[s]; });
  }
}

void Generator::choose_tokens(const Call& call) {
  if (!call.run.choose) return;
  const auto rows = std::ssize(call.run.numbers);
  const auto* logits =
      reinterpret_cast<const float*>(call.task.read(Role::logits, rows * call.work.logits));
  const std::size_t vocabulary = to_size(decoder_.config().vocabulary);
  for (const int sequence : call.run.numbers) {
    chosen_[sequence] = chooser_(sequence, {logits, vocabulary});
    logits += vocabulary;
  }
}

void Generator::compute(const Call& call) {
  exec::TaskRun& run = call.task;
  const plan::Workload& work = call.work;
  // By lane and not by tier: on the cpu device both are host memory.
  const bool by_cpu = (*plan_.slice.program.topology)[run.task.lane].kind == plan::LaneKind::cpu;
  const Bytes bytes = by_cpu ? work.host_scratch : work.scratch;
  std::byte* const scratch = run.write(Role::scratch, bytes);
  kernels::ModelLibrary& library = by_cpu ? runtime_.cpu_model() : runtime_.device_model();
  auto ops = library.ops(
      {.stream = &run.stream, .scratch = {scratch, scratch == nullptr ? 0 : to_size(bytes)}});
  const int b = run.task.block;
  switch (run.task.op) {
    case Op::embed:
      return decoder_.embed(
          ops, weights(run, Role::weights, b),
          {reinterpret_cast<const std::int32_t*>(run.read(Role::batch, work.batch)),
           to_size(call.run.tokens)},
          call.run.sequences, run.write(Role::output, work.input));
    case Op::attend:
    case Op::decode: return decode(call, ops);
    case Op::mlp:
      return decoder_.forward_mlp(ops, call.run.sequences,
                                  {.weights = weights(run, Role::weights, b),
                                   .input = run.read(Role::input, work.input),
                                   .output = run.write(Role::output, work.input)},
                                  run.carver(Role::work));
    case Op::logits:
      return decoder_.logits(ops, weights(run, Role::weights, b),
                             weights(run, Role::head_weights, 0), run.read(Role::input, work.input),
                             call.run.sequences,
                             reinterpret_cast<float*>(run.write(
                                 Role::logits, std::ssize(call.run.numbers) * work.logits)),
                             run.carver(Role::work));
    default: break;
  }
  throw Error(fmt::format("a generation program has no task '{}'", name_of(run.task.op)));
}

Bytes Generator::weight_bytes(int block) const {
  const plan::Block& of = plan_.slice.workload.blocks[block];
  return of.weights.bytes(of.parameters);
}

model::BlockWeights Generator::weights(exec::TaskRun& run, Role role, int block) const {
  return {run.read(role, weight_bytes(block)), layout_ ? &(*layout_)[block] : nullptr};
}

// The run's sequences with their places in a block's cache. A prompt's rows that came up for it lie
// alone.
List<model::SequenceTokens> Generator::with_caches(const Call& call) const {
  const plan::Use& use = *call.task.task.find(Role::cache);
  const Bytes all = call.work.blocks[call.task.task.block].cache;
  const Bytes each = all / call.work.sequences;
  const plan::Program& program =
      &call.work == &plan_.slice.workload ? plan_.slice.program : plan_.token.program;
  const bool alone = !program[use.object].persistent && &call.work == &plan_.slice.workload;
  std::byte* const caches = call.task.write(Role::cache, alone ? each : all);
  List<model::SequenceTokens> sequences = call.run.sequences;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].cache.rows = caches + (alone ? 0 : call.run.numbers[i] * each);
  }
  return sequences;
}

// A layer's attention and, where the task has both halves, its MLP.
void Generator::decode(const Call& call, kernels::ModelOps& ops) {
  exec::TaskRun& run = call.task;
  const int b = run.task.block;
  const bool both = run.task.op == Op::decode;
  std::byte* const output = run.write(Role::output, call.work.input);
  std::byte* const middle = both ? run.write(Role::middle, call.work.input) : output;
  memory::Carver& carver = run.carver(Role::work);
  // The halves take turns in the work's memory.
  memory::Carver first = carver, second = carver;
  decoder_.forward_attention(
      ops, parameters_.blocks[b].layer, with_caches(call),
      {.weights = weights(run, Role::weights, b),
       .tables = reinterpret_cast<const float*>(run.read(Role::tables, call.work.tables)),
       .input = run.read(Role::input, call.work.input),
       .output = middle},
      first);
  carver.cover(first);
  if (!both) return;
  decoder_.forward_mlp(
      ops, call.run.sequences,
      {.weights = weights(run, Role::mlp_weights, b + 1), .input = middle, .output = output},
      second);
  carver.cover(second);
}

}  // namespace ebb::engine
