#include "engine/training_tasks.h"

#include <cstring>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::engine {

using kernels::StepScale;
using plan::Op;
using plan::Role;
using plan::Site;

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

TrainingTasks::TrainingTasks(Runtime& runtime, const model::Decoder& decoder,
                             const model::Parameters& parameters, const ChunkMap& map,
                             const plan::Plan& plan, const Settings& settings)
    : runtime_(runtime),
      decoder_(decoder),
      parameters_(parameters),
      map_(map),
      plan_(plan),
      settings_(settings),
      chunks_of_block_(parameters.blocks.size()) {
  for (std::size_t c = 0; c < plan.program.chunks.size(); ++c) {
    chunks_of_block_[at(plan.program.chunks[c].block)].push_back(static_cast<int>(c));
  }
}

void TrainingTasks::operator()(TaskRun& run) {
  switch (run.task.op) {
    case Op::load_batch: return load_batch(run);
    case Op::embed: return embed(run);
    case Op::forward:
    case Op::recompute: return forward(run);
    case Op::head: return head(run);
    case Op::backward: return backward(run);
    case Op::embed_backward: return embed_backward(run);
    case Op::add_gradient: return add_gradient(run);
    case Op::finish_gradient: return finish_gradient(run);
    case Op::host_add_gradient: return host_add_gradient(run);
    case Op::host_finish_gradient: return host_finish_gradient(run);
    case Op::forget_scale:
      *reinterpret_cast<StepScale*>(run.at(Role::host_scale, sizeof(StepScale))) = {0.0f, 0};
      return;
    case Op::norm: return norm(run);
    case Op::update: return update(run, false);
    case Op::host_update: return update(run, true);
    case Op::send_input: {
      const Bytes bytes = work().input;
      return run.copy_down(run.at(Role::host_input, bytes), run.read(Role::input, bytes), bytes);
    }
    case Op::fetch_input: {
      const Bytes bytes = work().input;
      return run.copy_up(run.at(Role::input, bytes), run.read(Role::host_input, bytes), bytes);
    }
    case Op::send_gradient: {
      const Bytes element = work().gradient_bytes;
      const Bytes bytes = chunk(run).count * element;
      return run.copy_down(
          run.at(Role::host_gradient, bytes),
          run.read(Role::gradient, gradient_bytes(run)) + chunk(run).first * element, bytes);
    }
    case Op::gather_report: {
      const Bytes bytes = 8 * (work().micro_batches + map_.squares);
      return run.copy_down(run.at(Role::host_report, bytes), run.read(Role::report, bytes), bytes);
    }
    case Op::spread_scale: {
      constexpr Bytes bytes = sizeof(StepScale);
      return run.copy_up(run.at(Role::scale, bytes), run.read(Role::host_scale, bytes), bytes);
    }
    case Op::fetch_state: {
      const Bytes bytes = work().state_bytes(chunk(run).count);
      return run.copy_up(run.at(Role::state, bytes), run.read(Role::host_state, bytes), bytes);
    }
    case Op::send_state: {
      const Bytes bytes = work().state_bytes(chunk(run).count);
      return run.copy_down(run.at(Role::host_state, bytes), run.read(Role::state, bytes), bytes);
    }
    case Op::send_weight: {
      const Bytes bytes = chunk(run).count * work().weight_bytes;
      return run.copy_up(
          run.at(Role::weights, weights_bytes(run)) + chunk(run).first * work().weight_bytes,
          run.read(Role::host_weights, bytes), bytes);
    }
    case Op::load_tokens:
    case Op::decode:
    case Op::logits: break;
  }
  throw Error(fmt::format("a training program has no task '{}'", name_of(run.task.op)));
}

const plan::Block& TrainingTasks::block(const TaskRun& run) const {
  return work().blocks[at(run.task.block)];
}
const plan::Chunk& TrainingTasks::chunk(const TaskRun& run) const {
  return plan_.program.chunks[at(run.task.chunk)];
}
Bytes TrainingTasks::weights_bytes(const TaskRun& run) const {
  return block(run).parameters * work().weight_bytes;
}
Bytes TrainingTasks::gradient_bytes(const TaskRun& run) const {
  return block(run).parameters * work().gradient_bytes;
}
memory::Carver* TrainingTasks::kept(TaskRun& run) {
  return run.task.find(Role::kept) == nullptr ? nullptr : &run.carver(Role::kept);
}
std::span<const std::int32_t> TrainingTasks::ids(TaskRun& run, bool targets) const {
  const auto* first = reinterpret_cast<const std::int32_t*>(run.read(Role::batch, work().batch));
  return {first + (targets ? work().tokens : 0), at(work().tokens)};
}
double* TrainingTasks::squares(std::byte* report) const {
  return reinterpret_cast<double*>(report) + work().micro_batches;
}

kernels::Bound<kernels::ModelOps> TrainingTasks::model_ops(TaskRun& run) {
  std::byte* const scratch = run.at(Role::scratch, work().scratch);
  return runtime_.device_model().ops(
      {.stream = &run.stream, .scratch = {scratch, scratch ? at(work().scratch) : 0}});
}
kernels::Bound<kernels::OptimizerOps> TrainingTasks::device_optimizer(TaskRun& run) {
  return runtime_.device_optimizer().ops({.stream = &run.stream});
}
kernels::Bound<kernels::OptimizerOps> TrainingTasks::host_optimizer(TaskRun& run) {
  return runtime_.host_optimizer().ops({.stream = &run.stream});
}

void TrainingTasks::load_batch(TaskRun& run) {
  run.copy_up(run.at(Role::batch, work().batch), run.read(Role::host_batch, work().batch),
              work().batch);
}

void TrainingTasks::embed(TaskRun& run) {
  auto ops = model_ops(run);
  decoder_.embed(ops, run.read(Role::weights, weights_bytes(run)), ids(run, false),
                 {.start = 0, .length = decoder_.shape().sequence},
                 run.at(Role::output, work().input));
}

void TrainingTasks::forward(TaskRun& run) {
  auto ops = model_ops(run);
  const model::ForwardMemory memory{
      .weights = run.read(Role::weights, weights_bytes(run)),
      .tables = reinterpret_cast<const float*>(run.read(Role::tables, work().tables)),
      .input = run.read(Role::input, work().input),
      .output = run.at(Role::output, work().input),
      .kept = kept(run)};
  decoder_.forward(ops, layer(run), memory, run.carver(Role::saved), run.carver(Role::work));
}

void TrainingTasks::head(TaskRun& run) {
  auto ops = model_ops(run);
  const model::HeadMemory memory{
      .weights = run.read(Role::weights, weights_bytes(run)),
      .embedding = run.read(Role::head_weights, work().blocks[0].parameters * work().weight_bytes),
      .gradient = run.at(Role::gradient, gradient_bytes(run)),
      .tied_sum = run.at(Role::tied_sum, work().tied_sum),
      .loss = reinterpret_cast<double*>(run.at(Role::report, 8 * work().micro_batches)) +
              run.task.micro,
      .scale = static_cast<float>(1.0 / static_cast<double>(numbers_[slot(run.step)].counted))};
  decoder_.head(ops, memory, run.read(Role::input, work().input), ids(run, true),
                run.at(Role::residual, work().input), run.carver(Role::work));
}

void TrainingTasks::backward(TaskRun& run) {
  auto ops = model_ops(run);
  const model::BackwardMemory memory{
      .weights = run.read(Role::weights, weights_bytes(run)),
      .tables = reinterpret_cast<const float*>(run.read(Role::tables, work().tables)),
      .input = run.read(Role::input, work().input),
      .residual = run.at(Role::residual, work().input),
      .gradient = run.at(Role::gradient, gradient_bytes(run)),
      .kept = kept(run)};
  decoder_.backward(ops, layer(run), memory, run.carver(Role::saved), run.carver(Role::work));
}

void TrainingTasks::embed_backward(TaskRun& run) {
  auto ops = model_ops(run);
  decoder_.embed_backward(ops, ids(run, false), run.read(Role::residual, work().input),
                          run.at(Role::tied_sum, work().tied_sum),
                          run.at(Role::gradient, gradient_bytes(run)), run.carver(Role::work));
}

// Chunks that lie one behind the other are added as one run: a block's, where none is the host's.
void TrainingTasks::add_gradient(TaskRun& run) {
  const std::byte* gradient = run.read(Role::gradient, gradient_bytes(run));
  auto* sum = reinterpret_cast<float*>(run.at(Role::sum, block(run).parameters * 4));
  auto ops = model_ops(run);
  auto optimizer = device_optimizer(run);
  std::int64_t first = 0, end = 0;
  const auto add_run = [&] {
    if (first == end) return;
    if (run.task.micro == 0) ops->fill_zero(sum + first, (end - first) * 4);
    optimizer->add_gradient(sum + first, gradient + first * work().gradient_bytes,
                            settings_.gradient_type, end - first);
  };
  for (const int c : chunks_of_block_[at(run.task.block)]) {
    const plan::Chunk& part = plan_.program.chunks[at(c)];
    if (part.site == Site::host) continue;
    if (part.first != end) {
      add_run();
      first = part.first;
    }
    end = part.first + part.count;
  }
  add_run();
}

void TrainingTasks::finish_gradient(TaskRun& run) {
  const bool summed = work().micro_batches > 1;
  auto ops = device_optimizer(run);
  std::byte* gradient = run.at(Role::gradient, gradient_bytes(run));
  const std::byte* sum = run.read(Role::sum, block(run).parameters * work().sum_bytes());
  double* to = squares(run.at(Role::report, 8 * (work().micro_batches + map_.squares)));
  const DType sum_type = work().micro_batches == 2 ? settings_.gradient_type : DType::f32;
  std::vector<kernels::GradientPart> parts;
  for (const int c : chunks_of_block_[at(run.task.block)]) {
    const plan::Chunk& cell = plan_.program.chunks[at(c)];
    if (summed && cell.site == Site::host) continue;
    for (const ChunkPart& part : map_.parts[at(c)]) {
      const std::int64_t first = cell.first + part.in_chunk;
      parts.push_back({.gradient = gradient + first * work().gradient_bytes,
                       .sum = summed ? sum + first * work().sum_bytes() : nullptr,
                       .partials = to + part.first_square,
                       .count = part.count});
    }
  }
  ops->finish_parts(parts, settings_.gradient_type, sum_type);
}

void TrainingTasks::host_add_gradient(TaskRun& run) {
  const std::int64_t count = chunk(run).count;
  auto* sum = reinterpret_cast<float*>(run.at(Role::host_sum, count * 4));
  const std::byte* gradient = run.read(Role::host_gradient, count * work().gradient_bytes);
  if (run.task.micro == 0) std::memset(sum, 0, at(count * 4));
  host_optimizer(run)->add_gradient(sum, gradient, settings_.gradient_type, count);
}

void TrainingTasks::host_finish_gradient(TaskRun& run) {
  auto ops = host_optimizer(run);
  const std::int64_t count = chunk(run).count;
  std::byte* gradient = run.at(Role::host_gradient, count * work().gradient_bytes);
  const std::byte* sum = run.read(Role::host_sum, count * work().sum_bytes());
  double* to = squares(run.at(Role::host_squares, 8 * (work().micro_batches + map_.squares)));
  const DType sum_type = work().micro_batches == 2 ? settings_.gradient_type : DType::f32;
  std::vector<kernels::GradientPart> parts;
  for (const ChunkPart& part : map_.parts[at(run.task.chunk)]) {
    parts.push_back({.gradient = gradient + part.in_chunk * work().gradient_bytes,
                     .sum = sum + part.in_chunk * work().sum_bytes(),
                     .partials = to + part.first_square,
                     .count = part.count});
  }
  ops->finish_parts(parts, settings_.gradient_type, sum_type);
}

void TrainingTasks::norm(TaskRun& run) {
  const Bytes bytes = 8 * (work().micro_batches + map_.squares);
  std::byte* report = run.at(Role::host_report, bytes);
  double* all = squares(report);
  // Sums of squares that the host made itself take the place of those that did not come down.
  if (work().micro_batches > 1) {
    const double* own = squares(run.at(Role::host_squares, bytes));
    for (std::size_t c = 0; c < map_.parts.size(); ++c) {
      if (plan_.program.chunks[c].site != Site::host) continue;
      for (const ChunkPart& part : map_.parts[c]) {
        std::copy_n(own + part.first_square, kernels::norm_blocks(part.count),
                    all + part.first_square);
      }
    }
  }
  std::vector<std::span<const double>> tensors;
  tensors.reserve(parameters_.all.size());
  for (std::size_t p = 0; p < parameters_.all.size(); ++p) {
    tensors.emplace_back(all + map_.first_square[p],
                         at(kernels::norm_blocks(parameters_.all[p].count())));
  }
  const optim::Norm norm = optim::global_norm(tensors, settings_.clip);

  double loss = 0;
  for (std::int64_t m = 0; m < work().micro_batches; ++m)
    loss += reinterpret_cast<double*>(report)[m];
  results_[slot(run.step)] = {.loss = loss / static_cast<double>(numbers_[slot(run.step)].counted),
                              .norm = norm.value};
  *reinterpret_cast<StepScale*>(run.at(Role::host_scale, sizeof(StepScale))) = norm.scale;
  if (norm.scale.apply == 0) {
    const std::int64_t bad = norm.first_bad_tensor;
    throw NumericsError(fmt::format(
        "step {}: the gradient norm is not finite (loss {}); the first tensor whose gradient is "
        "not "
        "finite is {}. Weights and states are those of the step before. A lower --learning-rate, a "
        "longer --warmup or --dtype fp32 may help.",
        numbers_[slot(run.step)].step, results_[slot(run.step)].loss,
        bad < 0 ? std::string("none alone: the sum of squares overflows")
                : parameters_.all[at(bad)].name));
  }
}

void TrainingTasks::update(TaskRun& run, bool on_host) {
  const plan::Chunk& cell = chunk(run);
  const Bytes weight_bytes = cell.count * work().weight_bytes;
  const Bytes gradient_size = cell.count * work().gradient_bytes;
  const Bytes state_size = work().state_bytes(cell.count);
  std::byte* weight =
      on_host ? run.at(Role::host_weights, weight_bytes)
              : run.at(Role::weights, weights_bytes(run)) + cell.first * work().weight_bytes;
  const std::byte* gradient =
      on_host ? run.read(Role::host_gradient, gradient_size)
              : run.read(Role::gradient, gradient_bytes(run)) + cell.first * work().gradient_bytes;
  const optim::StateKind& kind = settings_.state;
  const optim::StatePlanes planes =
      optim::planes(run.at(on_host ? Role::host_state : Role::state, state_size), kind, cell.count);
  const auto* scale = reinterpret_cast<const StepScale*>(
      run.read(on_host ? Role::host_scale : Role::scale, sizeof(StepScale)));
  auto ops = on_host ? host_optimizer(run) : device_optimizer(run);
  const StepNumbers& numbers = numbers_[slot(run.step)];
  std::vector<kernels::SpanUpdate> updates;
  for (const ChunkPart& part : map_.parts[at(run.task.chunk)]) {
    kernels::StateSpan span = optim::state_span(planes, kind, part.in_chunk, part.count);
    span.weight = weight + part.in_chunk * work().weight_bytes;
    span.gradient = gradient + part.in_chunk * work().gradient_bytes;
    span.gradient_type = settings_.gradient_type;
    span.tensor_key = static_cast<std::uint64_t>(part.parameter);
    span.first_element = part.in_parameter;
    updates.push_back({span, part.decays ? numbers.decaying : numbers.resting});
  }
  ops->update_spans(updates, scale);
}

}  // namespace ebb::engine
