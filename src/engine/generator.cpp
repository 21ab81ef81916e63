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
      parameters_(model::parameters_of(settings.config)),
      decoder_(settings.config, dtype_, dtype_, {}),
      plan_(plan_generation(runtime, settings)),
      memory_(runtime, plan_.slice),
      executor_(runtime.device(), memory_.spaces(),
                {{&plan_.slice.program, &plan_.slice.layout,
                  [this](exec::TaskRun& run) { run_task(run, plan_.slice.workload); }},
                 {&plan_.token.program, &plan_.token.layout,
                  [this](exec::TaskRun& run) { run_task(run, plan_.token.workload); }}}) {
  // Both programs have the same persistent objects at the same addresses: filled through one, read
  // by both.
  fill_rotary_table(executor_, plan_.slice.program.persistent.tables, decoder_, positions_);
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
    const Bytes element = size_of(dtype_);
    // Tensors come in pieces, so that the host holds one piece and never a whole tensor.
    executor_.write_now(plan_.slice.program.persistent.weights[to_size(parameter.block)],
                        (parameter.first + first) * element, from, count * element);
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
    executor_.issue(count_ == 1 ? kToken : kSlice, {count_ * 4});
    // Logits are wanted on the host, and the next token follows from them: nothing could run ahead.
    executor_.drain();
    length_ += count_;
    tokens = tokens.subspan(to_size(count_));
  }
  const auto* logits =
      reinterpret_cast<const float*>(executor_.address(objects.report, slice.logits));
  return {logits, to_size(decoder_.config().vocabulary)};
}

// Keys and values behind the length are overwritten before anything reads them: attention looks no
// further than the tokens of the call.
void Generator::keep(std::int64_t length) {
  if (length < 0 || length > length_) {
    throw Error(fmt::format("cannot keep {} of {} tokens", length, length_));
  }
  length_ = length;
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
  std::byte* const scratch = run.write(Role::scratch, work.scratch);
  auto ops = runtime_.device_model().ops(
      {.stream = &run.stream,
       .scratch = {scratch, scratch == nullptr ? 0 : to_size(work.scratch)}});
  const auto weights = [&](Role role, int block) {
    return run.read(role, parameters_.blocks[to_size(block)].length * size_of(dtype_));
  };
  const int b = run.task.block;
  switch (run.task.op) {
    case Op::embed:
      return decoder_.embed(
          ops, weights(Role::weights, 0),
          {reinterpret_cast<const std::int32_t*>(run.read(Role::batch, work.batch)),
           to_size(count_)},
          {.start = length_, .length = count_}, run.write(Role::output, work.input));
    case Op::decode: {
      const Bytes cached = work.blocks[to_size(b)].cache;
      std::byte* keys = run.write(Role::cache, cached);
      const model::KvCache cache{keys, keys + cached / 2};
      const model::ForwardMemory memory{
          .weights = weights(Role::weights, b),
          .tables = reinterpret_cast<const float*>(run.read(Role::tables, work.tables)),
          .input = run.read(Role::input, work.input),
          .output = run.write(Role::output, work.input),
          .cache = &cache};
      return decoder_.forward(ops, parameters_.blocks[to_size(b)].layer,
                              {.start = length_, .length = count_}, memory, run.carver(Role::work));
    }
    case Op::logits:
      return decoder_.logits(ops, weights(Role::weights, b), weights(Role::head_weights, 0),
                             run.read(Role::input, work.input), count_,
                             reinterpret_cast<float*>(run.write(Role::logits, work.logits)),
                             run.carver(Role::work));
    default: break;
  }
  throw Error(fmt::format("a generation program has no task '{}'", name_of(run.task.op)));
}

}  // namespace ebb::engine
