#include "engine/training_tasks.h"

#include <cstring>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::engine {

using kernels::StepScale;
using plan::Op;
using plan::Role;

TrainingTasks::TrainingTasks(Runtime& runtime, const model::Decoder& decoder,
                             const model::Parameters& parameters, const states::ChunkMap& map,
                             const plan::Plan& plan, const Settings& settings)
    : runtime_(runtime),
      decoder_(decoder),
      parameters_(parameters),
      map_(map),
      plan_(plan),
      report_bytes_(plan.workload.report_bytes()),
      settings_(settings),
      chunks_of_block_(parameters.blocks.size()) {
  const plan::Block& embedding =
      work().blocks[to_size(work().all_of(plan::BlockKind::embedding).front())];
  embedding_bytes_ = embedding.weights.bytes(embedding.parameters);
  for (std::size_t c = 0; c < plan.program.chunks.size(); ++c) {
    chunks_of_block_[to_size(plan.program.chunks[c].block)].push_back(static_cast<int>(c));
  }
}

// On the thread or inside the stream's work of the task's lane; lanes call it at once. Which bytes
// a task may touch its uses say: read() and write() check what is asked for.
void TrainingTasks::operator()(TaskRun& run) {
  switch (run.task.op) {
    case Op::embed: return embed(run);
    case Op::forward:
    case Op::recompute: return forward(run);
    case Op::head: return head(run);
    case Op::head_begin: return head_begin(run);
    case Op::head_statistics: return head_statistics(run);
    case Op::head_gradients: return head_gradients(run);
    case Op::head_end: return head_end(run);
    case Op::backward: return backward(run);
    case Op::embed_backward: return embed_backward(run);
    case Op::add_gradient: return add_gradient(run);
    case Op::finish_gradient: return finish_gradient(run);
    // Until the norm is known an update that ran would do nothing.
    case Op::reset_scale:
      *reinterpret_cast<StepScale*>(run.write(Role::scale, sizeof(StepScale))) = {0.0f, 0};
      return;
    case Op::norm: return norm(run);
    case Op::add_to_group: return add_to_group(run);
    case Op::exchange_gradients: return exchange_gradients(run);
    case Op::sum_groups: return sum_groups(run);
    case Op::gather_report: return gather_report(run);
    case Op::gather_weights: return gather_weights(run);
    case Op::update: return update(run);
    case Op::loss: return loss(run);
    case Op::note_loss:
    case Op::decode:
    case Op::attend:
    case Op::mlp:
    case Op::logits:
    case Op::transfer: break;
  }
  throw Error(fmt::format("a training program has no task '{}'", name_of(run.task.op)));
}

const plan::Block& TrainingTasks::block(const TaskRun& run) const {
  return work().blocks[to_size(run.task.block)];
}
const plan::Chunk& TrainingTasks::chunk(const TaskRun& run) const {
  return plan_.program.chunks[to_size(run.task.chunk)];
}
std::int64_t TrainingTasks::layer(const TaskRun& run) const {
  return parameters_.blocks[to_size(run.task.block)].layer;
}
// The parameters of the block that the task works on: all, or those of its piece.
plan::TensorRange TrainingTasks::extent(const TaskRun& run) const {
  if (run.task.piece < 0) return {0, block(run).parameters};
  const plan::BlockPiece& piece = block(run).pieces[to_size(run.task.piece)];
  return {piece.first, piece.count};
}
Bytes TrainingTasks::weights_bytes(const TaskRun& run) const {
  return block(run).weights.bytes(extent(run).count);
}
Bytes TrainingTasks::gradient_bytes(const TaskRun& run) const {
  return extent(run).count * work().gradient_bytes;
}
std::vector<int> TrainingTasks::chunks(const TaskRun& run) const {
  const plan::TensorRange all = extent(run);
  std::vector<int> found;
  for (const int c : chunks_of_block_[to_size(run.task.block)]) {
    // A chunk lies in one piece whole, so where it begins decides.
    const std::int64_t first = plan_.program.chunks[to_size(c)].first - all.first;
    if (first >= 0 && first < all.count) found.push_back(c);
  }
  return found;
}
// The report is a double of loss for each micro-batch, and behind them the sums of squares. Where
// gradients go by groups it is this rank's losses alone; all else is with the squares in host
// memory.
double* TrainingTasks::loss_of(TaskRun& run) const {
  return reinterpret_cast<double*>(run.write(Role::report, 8 * work().micro_batches)) +
         run.task.micro;
}
// Of all micro-batches together: their gradients add up to that of the step's mean loss.
float TrainingTasks::loss_scale(const TaskRun& run) const {
  return static_cast<float>(1.0 / static_cast<double>(numbers_[slot(run.step)].loss_tokens));
}
memory::Carver* TrainingTasks::carver_if_there(TaskRun& run, Role role) {
  return run.has(role) ? &run.carver(role) : nullptr;
}
// A batch is its ids and behind them its targets.
std::span<const std::int32_t> TrainingTasks::ids(TaskRun& run, bool targets) const {
  const auto* first = reinterpret_cast<const std::int32_t*>(run.read(Role::batch, work().batch));
  return {first + (targets ? work().tokens : 0), to_size(work().tokens)};
}
double* TrainingTasks::squares(std::byte* report) const {
  return reinterpret_cast<double*>(report) + work().reported_losses();
}
const double* TrainingTasks::squares(const std::byte* report) const {
  return reinterpret_cast<const double*>(report) + work().reported_losses();
}
// By lane and not by tier: on the cpu device both are host memory.
bool TrainingTasks::by_cpu(const TaskRun& run) const {
  return (*plan_.program.topology)[run.task.lane].kind == plan::LaneKind::cpu;
}
kernels::Bound<kernels::ModelOps> TrainingTasks::model_ops(TaskRun& run) {
  std::byte* const scratch = run.write(Role::scratch, work().scratch);
  return runtime_.device_model().ops(
      {.stream = &run.stream,
       .scratch = {scratch, scratch == nullptr ? 0 : to_size(work().scratch)}});
}
kernels::Bound<kernels::OptimizerOps> TrainingTasks::optimizer(TaskRun& run) {
  return (by_cpu(run) ? runtime_.host_optimizer() : runtime_.device_optimizer())
      .ops({.stream = &run.stream});
}

void TrainingTasks::embed(TaskRun& run) {
  if (run.task.piece >= 0) return embed_piece(run);
  auto ops = model_ops(run);
  decoder_.embed(ops, run.read(Role::weights, weights_bytes(run)), ids(run, false),
                 {.start = 0, .length = decoder_.shape().sequence},
                 run.write(Role::output, work().input));
}

// A recomputation is the same call; its task has no output to write.
void TrainingTasks::forward(TaskRun& run) {
  auto ops = model_ops(run);
  const model::ForwardMemory memory{
      .weights = run.read(Role::weights, weights_bytes(run)),
      .tables = reinterpret_cast<const float*>(run.read(Role::tables, work().tables)),
      .input = run.read(Role::input, work().input),
      .output = run.write(Role::output, work().input),
      .saved = &run.carver(Role::saved),
      .mlp = carver_if_there(run, Role::saved_mlp),
      .cheap_saved = carver_if_there(run, Role::cheap_saved)};
  decoder_.forward(ops, layer(run), decoder_.micro_batch(), memory, run.carver(Role::work));
}

void TrainingTasks::head(TaskRun& run) {
  auto ops = model_ops(run);
  const model::HeadMemory memory{.weights = run.read(Role::weights, weights_bytes(run)),
                                 .embedding = run.read(Role::head_weights, embedding_bytes_),
                                 .gradient = run.write(Role::gradient, gradient_bytes(run)),
                                 .tied_sum = run.write(Role::tied_sum, work().tied_sum),
                                 .loss = loss_of(run),
                                 .scale = loss_scale(run)};
  decoder_.head(ops, memory, run.read(Role::input, work().input), ids(run, true),
                run.write(Role::residual, work().input), run.carver(Role::work));
}

void TrainingTasks::loss(TaskRun& run) {
  auto ops = model_ops(run);
  // The head went by pieces: its statistics are there, and the loss follows from them.
  if (run.has(Role::head_state)) {
    return decoder_.head_loss(ops, ids(run, true),
                              reinterpret_cast<double*>(run.write(Role::report, 8)),
                              run.carver(Role::head_state));
  }
  decoder_.loss(ops, run.read(Role::weights, weights_bytes(run)),
                run.read(Role::head_weights, embedding_bytes_), run.read(Role::input, work().input),
                ids(run, true), reinterpret_cast<double*>(run.write(Role::report, 8)),
                run.carver(Role::work));
}

void TrainingTasks::backward(TaskRun& run) {
  auto ops = model_ops(run);
  const model::BackwardMemory memory{
      .weights = run.read(Role::weights, weights_bytes(run)),
      .tables = reinterpret_cast<const float*>(run.read(Role::tables, work().tables)),
      .input = run.read(Role::input, work().input),
      .residual = run.write(Role::residual, work().input),
      .gradient = run.write(Role::gradient, gradient_bytes(run)),
      .mlp = carver_if_there(run, Role::saved_mlp),
      .cheap_saved = carver_if_there(run, Role::cheap_saved)};
  decoder_.backward(ops, layer(run), memory, run.carver(Role::saved), run.carver(Role::work));
}

void TrainingTasks::embed_backward(TaskRun& run) {
  if (run.task.piece >= 0) return embed_piece_backward(run);
  auto ops = model_ops(run);
  decoder_.embed_backward(ops, ids(run, false), run.read(Role::residual, work().input),
                          run.write(Role::tied_sum, work().tied_sum),
                          run.write(Role::gradient, gradient_bytes(run)), run.carver(Role::work));
}

// Chunks that lie one behind the other are one stretch: a block's, where the CPU sums none.
std::vector<TrainingTasks::Stretch> TrainingTasks::stretches(const TaskRun& run) const {
  if (run.task.chunk >= 0) return {{0, chunk(run).count}};
  std::vector<Stretch> all;
  const std::int64_t begin = extent(run).first;
  for (const int c : chunks(run)) {
    const plan::Chunk& part = plan_.program.chunks[to_size(c)];
    if (part.sums != plan::Tier::device) continue;
    const std::int64_t first = part.first - begin;
    if (!all.empty() && all.back().first + all.back().count == first) {
      all.back().count += part.count;
    } else {
      all.push_back({first, part.count});
    }
  }
  return all;
}

void TrainingTasks::add_gradient(TaskRun& run) {
  const bool of_chunk = run.task.chunk >= 0;
  const std::int64_t count = of_chunk ? chunk(run).count : extent(run).count;
  const Bytes bytes = count * work().gradient_bytes;
  const std::byte* gradient = run.read(Role::gradient, bytes);
  auto ops = optimizer(run);
  if (of_chunk && work().sums_in_planes()) {
    ops->add_to_planes(
        {reinterpret_cast<std::uint16_t*>(run.write(Role::sum, bytes)),
         reinterpret_cast<std::uint16_t*>(run.write(Role::sum_rest, bytes)), run.task.micro == 2},
        reinterpret_cast<const bf16*>(gradient), count);
    return;
  }
  std::byte* const sum = run.write(Role::sum, count * 4);
  // The first gradient lies in a place of its own, or where the sum will.
  const std::byte* earlier = of_chunk && run.task.micro == 1 ? sum : run.read(Role::earlier, bytes);
  for (const Stretch& part : stretches(run)) {
    const Bytes first = part.first * work().gradient_bytes;
    auto* const to = reinterpret_cast<float*>(sum) + part.first;
    if (earlier != nullptr) {
      ops->add_two_gradients(to, earlier + first, gradient + first, settings_.gradient_type,
                             part.count);
    } else {
      ops->add_gradient(to, gradient + first, settings_.gradient_type, part.count);
    }
  }
}

void TrainingTasks::finish_gradient(TaskRun& run) {
  run.task.chunk >= 0 ? finish_chunk(run) : finish_block(run);
}

// Runs on the CPU, in the place of the sum, to which the last gradient comes.
void TrainingTasks::finish_chunk(TaskRun& run) {
  const Bytes each = work().gradient_bytes;
  const Bytes bytes = chunk(run).count * each;
  std::byte* const sum = run.write(Role::sum, bytes);
  const std::byte* const last = run.read(Role::gradient, bytes);
  const bool in_planes = work().sums_in_planes();
  // Sums that are kept as two planes of 16 bits each.
  const auto* low =
      in_planes ? reinterpret_cast<const std::uint16_t*>(run.read(Role::sum_rest, bytes)) : nullptr;
  double* to = squares(run.write(Role::squares, report_bytes_));
  std::vector<kernels::GradientPart> parts;
  for (const states::Part& part : map_[run.task.chunk].parts) {
    parts.push_back({.gradient = sum + part.in_chunk * each,
                     .sum = last + part.in_chunk * each,
                     .partials = to + map_.first_square(part),
                     .count = part.count,
                     .low = in_planes ? low + part.in_chunk : nullptr,
                     .two_gradients = work().micro_batches == 3});
  }
  optimizer(run)->finish_parts(parts, settings_.gradient_type, settings_.gradient_type);
}

// Runs on the device, where several micro-batches are summed up without what the CPU sums.
void TrainingTasks::finish_block(TaskRun& run) {
  const auto [begin, count] = extent(run);
  std::byte* gradient = run.write(Role::gradient, count * work().gradient_bytes);
  const std::byte* sum = run.read(Role::sum, count * work().sum_bytes());
  double* to = squares(run.write(Role::report, report_bytes_));
  // Of two micro-batches the first is the sum, as it was written.
  const DType sum_type = work().micro_batches == 2 ? settings_.gradient_type : DType::f32;
  std::vector<kernels::GradientPart> parts;
  for (const int c : chunks(run)) {
    const plan::Chunk& cell = plan_.program.chunks[to_size(c)];
    if (sum != nullptr && cell.sums != plan::Tier::device) continue;
    for (const states::Part& part : map_[c].parts) {
      const std::int64_t first = cell.first - begin + part.in_chunk;
      parts.push_back({.gradient = gradient + first * work().gradient_bytes,
                       .sum = sum == nullptr ? nullptr : sum + first * work().sum_bytes(),
                       .partials = to + map_.first_square(part),
                       .count = part.count});
    }
  }
  optimizer(run)->finish_parts(parts, settings_.gradient_type, sum_type);
}

void TrainingTasks::norm(TaskRun& run) {
  const Bytes bytes = report_bytes_;
  const bool grouped = work().ranks.grouped();
  if (grouped) place_losses(run);
  std::byte* report = run.write(grouped ? Role::squares : Role::report, bytes);
  double* all = squares(report);
  // Sums of squares that the host made itself take the place of those that did not come down.
  if (work().micro_batches > 1 && !grouped) {
    const double* own = squares(run.read(Role::squares, bytes));
    for (std::size_t c = 0; c < map_.chunks.size(); ++c) {
      if (plan_.program.chunks[c].sums == plan::Tier::device) continue;
      for (const states::Part& part : map_.chunks[c].parts) {
        const std::int64_t first = map_.first_square(part);
        std::copy_n(own + first, kernels::norm_blocks(part.count), all + first);
      }
    }
  }
  const states::GradientNorm norm = states::global_norm(map_, all, settings_.clip);

  double loss = 0;
  for (std::int64_t m = 0; m < work().reported_losses(); ++m)
    loss += reinterpret_cast<double*>(report)[m];
  results_[slot(run.step)] = {
      .loss = loss / static_cast<double>(numbers_[slot(run.step)].loss_tokens), .norm = norm.value};
  *reinterpret_cast<StepScale*>(run.write(Role::scale, sizeof(StepScale))) = norm.scale;
  if (norm.scale.apply == 0) {
    const std::int64_t bad = norm.first_bad_tensor;
    // The scale that says so was written first: an update that still runs changes nothing.
    throw NumericsError(fmt::format(
        "step {}: the gradient norm is not finite (loss {}); the first tensor whose gradient is "
        "not finite is {}. Weights and states are those of the step before. A lower "
        "--learning-rate, a "
        "longer --warmup or --dtype fp32 may help.",
        numbers_[slot(run.step)].step, results_[slot(run.step)].loss,
        bad < 0 ? std::string("none alone: the sum of squares overflows")
                : parameters_.all[to_size(bad)].name));
  }
}

void TrainingTasks::update(TaskRun& run) {
  // The largest step whose updates began. Lanes race for it; a later step must not be taken back.
  for (std::int64_t last = updating_; last < run.step;) {
    if (updating_.compare_exchange_weak(last, run.step)) break;
  }
  const states::Chunk& chunk = map_[run.task.chunk];
  const auto* scale = reinterpret_cast<const StepScale*>(run.read(Role::scale, sizeof(StepScale)));
  const auto updates = states::updates_of(
      map_, run.task.chunk, run.write(Role::state, chunk.state_bytes()),
      numbers_[slot(run.step)].update,
      states::PartMemory{.weight = run.write(Role::weights, chunk.weight_bytes()),
                         .gradient = run.read(Role::gradient, chunk.gradient_bytes())});
  optimizer(run)->update_spans(updates, scale);
}

}  // namespace ebb::engine
