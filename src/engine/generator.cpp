#include "engine/generator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "engine/rotary_table.h"
#include "kernels/split_master.h"

namespace ebb::engine {

using plan::Op;
using plan::Role;

namespace {

// Numbers of the executor's programs.
constexpr std::size_t kSlice = 0;
constexpr std::size_t kToken = 1;

}  // namespace

Generator::Generator(Runtime& runtime, io::FileSystem& files, const files::ModelSource& source,
                     const GeneratorSettings& settings)
    : runtime_(runtime),
      dtype_(settings.dtype),
      positions_(settings.positions),
      trace_runs_(settings.trace_runs),
      parameters_(model::parameters_of(settings.config, model::BlockCut::halves)),
      decoder_(settings.config, dtype_, dtype_, {}, model::BlockCut::halves),
      plan_(plan_generation(runtime, settings)),
      memory_(runtime, plan_.slice, settings.make_space),
      executor_(runtime.device(), memory_.spaces(),
                {{&plan_.slice.program, &plan_.slice.layout,
                  [this](exec::TaskRun& run) { run_task(run, plan_.slice.workload); }},
                 {&plan_.token.program, &plan_.token.layout,
                  [this](exec::TaskRun& run) { run_task(run, plan_.token.workload); }}},
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
    const plan::Block& block = plan_.slice.workload.blocks[parameter.block];
    const plan::Range where =
        block.weights.ranges(block.parameters, parameter.first + first, count).front();
    executor_.write_now(plan_.slice.program.persistent.weights[parameter.block], where.first, from,
                        where.bytes);
  };
  if (!source.has_weights()) {
    files::initialize_weights(runtime_.pool(), source.config, parameters_, 0, sink);
  } else {
    files::load_weights(files, source, parameters_, sink);
  }
}

std::span<const float> Generator::advance(std::span<const std::int32_t> tokens) {
  const plan::PersistentObjects& objects = plan_.slice.program.persistent;
  const plan::Workload& slice = plan_.slice.workload;
  while (!tokens.empty()) {
    count_ = std::min<std::int64_t>(slice.tokens, static_cast<std::int64_t>(tokens.size()));
    if (length_ + count_ > positions_) {
      throw ConfigError(fmt::format("the sequence is full: {} positions", positions_));
    }
    std::memcpy(executor_.address(objects.batches[0], slice.batch), tokens.data(),
                to_size(count_ * 4));
    const Bytes row = decoder_.cache_row_bytes();
    executor_.issue(count_ == 1 ? kToken : kSlice,
                    {count_ * 4, length_ * row, count_ * row,
                     count_ * decoder_.config().hidden * size_of(dtype_)});
    // Logits are wanted on the host, and the next token follows from them: nothing could run ahead.
    executor_.drain();
    length_ += count_;
    tokens = tokens.subspan(to_size(count_));
  }
  const auto* logits =
      reinterpret_cast<const float*>(executor_.address(objects.report, slice.logits));
  return {logits, to_size(decoder_.config().vocabulary)};
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

void Generator::run_task(exec::TaskRun& run, const plan::Workload& work) {
  // By lane and not by tier: on the cpu device both are host memory.
  const bool by_cpu = (*plan_.slice.program.topology)[run.task.lane].kind == plan::LaneKind::cpu;
  const Bytes bytes = by_cpu ? work.host_scratch : work.scratch;
  std::byte* const scratch = run.write(Role::scratch, bytes);
  kernels::ModelLibrary& library = by_cpu ? runtime_.cpu_model() : runtime_.device_model();
  auto ops = library.ops(
      {.stream = &run.stream, .scratch = {scratch, scratch == nullptr ? 0 : to_size(bytes)}});
  const auto weights = [&](Role role, int block) { return run.read(role, weight_bytes(block)); };
  const int b = run.task.block;
  switch (run.task.op) {
    case Op::embed:
      return decoder_.embed(
          ops, weights(Role::weights, b),
          {reinterpret_cast<const std::int32_t*>(run.read(Role::batch, work.batch)),
           to_size(count_)},
          {.start = length_, .length = count_}, run.write(Role::output, work.input));
    case Op::attend:
    case Op::decode: return decode(run, work, ops);
    case Op::mlp:
      return decoder_.forward_mlp(ops, count_,
                                  {.weights = weights(Role::weights, b),
                                   .input = run.read(Role::input, work.input),
                                   .output = run.write(Role::output, work.input)},
                                  run.carver(Role::work));
    case Op::logits:
      return decoder_.logits(ops, weights(Role::weights, b), weights(Role::head_weights, 0),
                             run.read(Role::input, work.input), count_,
                             reinterpret_cast<float*>(run.write(Role::logits, work.logits)),
                             run.carver(Role::work));
    default: break;
  }
  throw Error(fmt::format("a generation program has no task '{}'", name_of(run.task.op)));
}

Bytes Generator::weight_bytes(int block) const {
  const plan::Block& of = plan_.slice.workload.blocks[block];
  return of.weights.bytes(of.parameters);
}

// A layer's attention and, where the task has both halves, its MLP.
void Generator::decode(exec::TaskRun& run, const plan::Workload& work, kernels::ModelOps& ops) {
  const int b = run.task.block;
  const bool both = run.task.op == Op::decode;
  const model::KvCache cache{run.write(Role::cache, work.blocks[b].cache)};
  std::byte* const output = run.write(Role::output, work.input);
  std::byte* const middle = both ? run.write(Role::middle, work.input) : output;
  memory::Carver& carver = run.carver(Role::work);
  // The halves take turns in the work's memory.
  memory::Carver first = carver, second = carver;
  decoder_.forward_attention(
      ops, parameters_.blocks[b].layer, {.start = length_, .length = count_},
      {.weights = run.read(Role::weights, weight_bytes(b)),
       .tables = reinterpret_cast<const float*>(run.read(Role::tables, work.tables)),
       .input = run.read(Role::input, work.input),
       .output = middle,
       .cache = &cache},
      first);
  carver.cover(first);
  if (!both) return;
  decoder_.forward_mlp(ops, count_,
                       {.weights = run.read(Role::mlp_weights, weight_bytes(b + 1)),
                        .input = middle,
                        .output = output},
                       second);
  carver.cover(second);
}

}  // namespace ebb::engine
