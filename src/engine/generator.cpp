#include "engine/generator.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/parameter_store.h"
#include "engine/rotary_table.h"
#include "engine/training_run.h"
#include "engine/workload.h"
#include "kernels/counting_ops.h"
#include "kernels/split_master.h"
#include "plan/waits.h"

namespace ebb::engine {

using memory::Carver;
using plan::Op;
using plan::Role;

namespace {

// A piece of a tensor as it is stored, as fp32 and as bf16.
constexpr Bytes kLoadingBytes = 10 * ParameterStore::kPiece;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// What the model's own code wants, found by running it with ops that count.
plan::GenerationWork measure(const model::Decoder& decoder, const model::Parameters& parameters,
                             const kernels::WorkspaceNeeds& needs, DType dtype,
                             std::int64_t positions) {
  const model::Config& config = decoder.config();
  const std::int64_t most = std::min(Generator::kPromptSlice, positions);
  std::byte* nowhere = Carver::measuring().take(0);
  auto* floats = reinterpret_cast<float*>(nowhere);
  kernels::CountingOps ops(needs);
  plan::GenerationWork work;
  // The longest prompt slice and a single token take different paths; both must find room.
  for (const std::int64_t count : {most, std::int64_t{1}}) {
    // Blocks want the same memory; their scratch may differ with their windows.
    for (std::int64_t layer = 0; layer < config.layers; ++layer) {
      Carver block = Carver::measuring();
      decoder.decode(
          ops, layer, {.weights = nowhere, .tables = floats, .input = nowhere, .output = nowhere},
          count, {.keys = nowhere, .values = nowhere, .length = positions - count}, block);
      work.work = std::max(work.work, block.used());
    }
    Carver head = Carver::measuring();
    decoder.logits(ops, nowhere, nowhere, nowhere, count, floats, head);
    work.head_work = std::max(work.head_work, head.used());
  }
  work.scratch = ops.take().scratch;
  for (const model::ParameterBlock& block : parameters.blocks) {
    work.blocks.push_back(describe_block(block, dtype));
  }
  work.tokens = most * 4;
  work.input = most * config.hidden * size_of(dtype);
  work.cache = 2 * positions * config.kv_width() * size_of(dtype);
  work.logits = config.vocabulary * 4;
  work.tables = decoder.table_bytes(positions);
  return work;
}

plan::Layout lay_out_within(plan::Program& program, const plan::GenerationWork& work,
                            const plan::Limits& limits, Bytes libraries, Bytes held) {
  plan::Layout layout = plan::lay_out(program);
  const Bytes device = layout.size_of(plan::Tier::device) + libraries;
  // Weights come through host memory a piece at a time, and the program is there too.
  const Bytes host = layout.size_of(plan::Tier::host) + held + kLoadingBytes +
                     static_cast<Bytes>(program.tasks.size()) * kTaskBytes;
  if (device > limits[plan::Tier::device] || host > limits[plan::Tier::host]) {
    Bytes weights = 0, caches = 0;
    for (const plan::Block& block : work.blocks) {
      weights += block.weights.bytes(block.parameters);
      caches += block.kind == plan::BlockKind::layer ? work.cache : 0;
    }
    throw OutOfBudget(fmt::format(
        "the model does not fit the limits.\n"
        "  weights on the device     {:>12}\n"
        "  key-value cache           {:>12}\n"
        "  workspace and inputs      {:>12}\n"
        "  needed on the device      {:>12}, limit {}\n"
        "  tokenizer, chat template  {:>12}\n"
        "  loading, program, logits  {:>12}\n"
        "  needed on the host        {:>12}, limit {}\n"
        "Missing: {}. A higher --{}-memory, fewer --max-tokens or a smaller model would help.",
        format_bytes(weights), format_bytes(caches), format_bytes(device - weights - caches),
        format_bytes(device), format_bytes(limits[plan::Tier::device]), format_bytes(held),
        format_bytes(host - held), format_bytes(host), format_bytes(limits[plan::Tier::host]),
        format_bytes(std::max<Bytes>(0, device - limits[plan::Tier::device]) +
                     std::max<Bytes>(0, host - limits[plan::Tier::host])),
        device > limits[plan::Tier::device] ? "device" : "host"));
  }
  plan::add_waits(program, layout);
  return layout;
}

}  // namespace

Generator::Generator(Runtime& runtime, io::FileSystem& files, const ModelSource& source,
                     DType dtype, std::int64_t positions, const plan::Limits& limits, Bytes held)
    : runtime_(runtime),
      dtype_(dtype),
      positions_(positions),
      parameters_(model::parameters_of(source.config)),
      decoder_(source.config, dtype, dtype, {}),
      work_(measure(decoder_, parameters_, runtime.device_model(), dtype, positions)),
      program_(plan::build_generation(work_)),
      layout_(
          lay_out_within(program_, work_, limits, runtime.device_model().library_bytes(), held)),
      device_arena_("device",
                    runtime.device().allocate_device(layout_.size_of(plan::Tier::device))),
      host_arena_("host", runtime.device().allocate_host(layout_.size_of(plan::Tier::host))),
      executor_(runtime.device(), {&device_arena_, &host_arena_},
                {{&program_, &layout_, [this](exec::TaskRun& run) { run_task(run); }}}) {
  fill_rotary_table(executor_, program_.persistent.tables, decoder_, positions);
  load(files, source);
}

void Generator::load(io::FileSystem& files, const ModelSource& source) {
  std::vector<bf16> halves;
  const WeightSink sink = [&](int p, std::int64_t first, std::span<const float> values) {
    const model::Parameter& parameter = parameters_.all[at(p)];
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
    executor_.write_now(program_.persistent.weights[at(parameter.block)],
                        (parameter.first + first) * element, from, count * element);
  };
  if (source.folder.empty()) {
    initialize_weights(runtime_.pool(), source.config, parameters_, 0, sink);
  } else {
    load_weights(files, source, parameters_, sink);
  }
}

std::span<const float> Generator::advance(std::span<const std::int32_t> tokens) {
  const std::int64_t slice = std::min(kPromptSlice, positions_);
  while (!tokens.empty()) {
    count_ = std::min<std::int64_t>(slice, static_cast<std::int64_t>(tokens.size()));
    if (length_ + count_ > positions_) {
      throw ConfigError(fmt::format("the sequence is full: {} positions", positions_));
    }
    std::memcpy(executor_.address(program_.persistent.batches[0], work_.tokens), tokens.data(),
                at(count_ * 4));
    executor_.issue(0, {count_ * 4});
    executor_.drain();
    length_ += count_;
    tokens = tokens.subspan(at(count_));
  }
  const auto* logits =
      reinterpret_cast<const float*>(executor_.address(program_.persistent.report, work_.logits));
  return {logits, at(decoder_.config().vocabulary)};
}

void Generator::run_task(exec::TaskRun& run) {
  std::byte* const scratch = run.write(Role::scratch, work_.scratch);
  auto ops = runtime_.device_model().ops(
      {.stream = &run.stream, .scratch = {scratch, scratch == nullptr ? 0 : at(work_.scratch)}});
  const auto weights = [&](Role role, int block) {
    return run.read(role, parameters_.blocks[at(block)].length * size_of(dtype_));
  };
  const int b = run.task.block;
  switch (run.task.op) {
    case Op::embed:
      return decoder_.embed(
          ops, weights(Role::weights, 0),
          {reinterpret_cast<const std::int32_t*>(run.read(Role::batch, work_.tokens)), at(count_)},
          {.start = length_, .length = count_}, run.write(Role::output, work_.input));
    case Op::decode: {
      std::byte* cache = run.write(Role::cache, work_.cache);
      const model::ForwardMemory memory{
          .weights = weights(Role::weights, b),
          .tables = reinterpret_cast<const float*>(run.read(Role::tables, work_.tables)),
          .input = run.read(Role::input, work_.input),
          .output = run.write(Role::output, work_.input)};
      return decoder_.decode(ops, parameters_.blocks[at(b)].layer, memory, count_,
                             {cache, cache + work_.cache / 2, length_}, run.carver(Role::work));
    }
    case Op::logits:
      return decoder_.logits(ops, weights(Role::weights, b), weights(Role::head_weights, 0),
                             run.read(Role::input, work_.input), count_,
                             reinterpret_cast<float*>(run.write(Role::logits, work_.logits)),
                             run.carver(Role::work));
    default: break;
  }
  throw Error(fmt::format("a generation program has no task '{}'", name_of(run.task.op)));
}

}  // namespace ebb::engine
