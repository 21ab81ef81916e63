// Tasks of an embedding and a head that use one piece of the vocabulary at a time. The pieces
// behind those of the table are the learned positions and the last norm.
#include "engine/training_tasks.h"

namespace ebb::engine {

using plan::Role;

void TrainingTasks::embed_piece(TaskRun& run) {
  auto ops = model_ops(run);
  const std::byte* weights = run.read(Role::weights, weights_bytes(run));
  std::byte* const output = run.write(Role::output, work().input);
  if (run.task.piece < decoder_.pieces().count) {
    decoder_.embed_piece(ops, run.task.piece, weights, ids(run, false), output);
  } else {
    decoder_.embed_positions(ops, weights, {.start = 0, .length = decoder_.shape().sequence},
                             output);
  }
}

void TrainingTasks::embed_piece_backward(TaskRun& run) {
  auto ops = model_ops(run);
  const std::byte* residual = run.read(Role::residual, work().input);
  std::byte* const gradient = run.write(Role::gradient, gradient_bytes(run));
  if (run.task.piece < decoder_.pieces().count) {
    decoder_.embed_piece_backward(ops, run.task.piece, ids(run, false), residual,
                                  run.write(Role::tied_sum, 4 * extent(run).count), gradient,
                                  run.carver(Role::work));
  } else {
    decoder_.positions_backward(ops, residual, gradient);
  }
}

void TrainingTasks::head_begin(TaskRun& run) {
  auto ops = model_ops(run);
  decoder_.head_begin(ops, run.read(Role::weights, weights_bytes(run)),
                      run.read(Role::input, work().input), run.carver(Role::head_state));
}

void TrainingTasks::head_statistics(TaskRun& run) {
  auto ops = model_ops(run);
  decoder_.head_statistics(ops, run.task.piece, run.read(Role::head_weights, table_bytes(run)),
                           ids(run, true), run.carver(Role::head_state), run.carver(Role::work));
}

void TrainingTasks::head_gradients(TaskRun& run) {
  auto ops = model_ops(run);
  const model::HeadPieceMemory memory{
      .table = run.read(Role::head_weights, table_bytes(run)),
      .gradient = run.write(Role::gradient, gradient_bytes(run)),
      .tied_sum = run.write(Role::tied_sum, 4 * table_piece(run).count),
      .dnormed = run.write(Role::head_gradient, decoder_.dnormed_bytes()),
      .scale = loss_scale(run)};
  decoder_.head_gradients(ops, run.task.piece, memory, ids(run, true), run.carver(Role::head_state),
                          run.carver(Role::work));
}

void TrainingTasks::head_end(TaskRun& run) {
  auto ops = model_ops(run);
  const model::HeadEndMemory memory{
      .norm = run.read(Role::weights, weights_bytes(run)),
      .norm_gradient = run.write(Role::gradient, gradient_bytes(run)),
      .input = run.read(Role::input, work().input),
      .dnormed = run.read(Role::head_gradient, decoder_.dnormed_bytes()),
      .residual = run.write(Role::residual, work().input)};
  memory::Carver& state = run.carver(Role::head_state);
  // Both cut the same state from its beginning.
  memory::Carver for_loss = state;
  decoder_.head_loss(ops, ids(run, true), loss_of(run), for_loss);
  decoder_.head_end(ops, memory, state);
}

const plan::BlockPiece& TrainingTasks::table_piece(const TaskRun& run) const {
  using plan::BlockKind;
  // A tied head computes with the embedding's table and has none of its own.
  const int table =
      work().all_of(work().tied_sum > 0 ? BlockKind::embedding : BlockKind::head).front();
  return work().blocks[table].pieces[run.task.piece];
}

Bytes TrainingTasks::table_bytes(const TaskRun& run) const {
  return block(run).weights.bytes(table_piece(run).count);
}

}  // namespace ebb::engine
