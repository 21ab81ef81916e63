// What the tasks of a training program do. One small function a kind of task; all the knowledge of
// order, addresses and lanes is the program's and the executor's.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/to_size.h"
#include "engine/runtime.h"
#include "exec/executor.h"
#include "kernels/optimizer_ops.h"
#include "model/decoder.h"
#include "plan/planner.h"
#include "states/clip.h"
#include "states/updates.h"

namespace ebb::dist {
class Communicator;
}

namespace ebb::engine {

using exec::TaskRun;

// Numbers that differ from step to step.
struct StepNumbers {
  std::int64_t step = 0;         // from 1
  std::int64_t loss_tokens = 0;  // targets that the loss is the mean of, over all micro-batches
  states::UpdateNumbers update;
};

struct StepResult {
  double loss = 0;
  double norm = 0;
};

class TrainingTasks {
 public:
  struct Settings {
    DType gradient_type = DType::bf16;
    double clip = 1.0;
    dist::Communicator* ranks = nullptr;  // for the lane of the network alone; null: one rank
  };

  // Keeps references to all of it.
  TrainingTasks(Runtime& runtime, const model::Decoder& decoder,
                const model::Parameters& parameters, const states::ChunkMap& map,
                const plan::Plan& plan, const Settings& settings);

  // Runs on the task's lane.
  void operator()(TaskRun& run);

  // Set before step number `index` (from 0) is issued; read by its tasks, which can still run while
  // the next step's are issued.
  void set_numbers(std::int64_t index, const StepNumbers& numbers) {
    numbers_[slot(index)] = numbers;
  }
  // Valid once the step's norm task has ended.
  StepResult result(std::int64_t index) const { return results_[slot(index)]; }
  // The last step of which an update began, by its index; -1 before the first.
  std::int64_t last_updating() const { return updating_; }

 private:
  static std::size_t slot(std::int64_t index) { return to_size(index % 2); }
  const plan::Workload& work() const { return plan_.workload; }
  const plan::Block& block(const TaskRun& run) const;
  const plan::Chunk& chunk(const TaskRun& run) const;
  std::int64_t layer(const TaskRun& run) const;
  // The parameters that the task is about: its block's, or those of a piece of it.
  plan::TensorRange extent(const TaskRun& run) const;
  Bytes weights_bytes(const TaskRun& run) const;
  Bytes gradient_bytes(const TaskRun& run) const;
  // The chunks of those parameters.
  std::vector<int> chunks(const TaskRun& run) const;
  // The loss of a micro-batch in the report, and what gradients are scaled by.
  double* loss_of(TaskRun& run) const;
  float loss_scale(const TaskRun& run) const;
  bool by_cpu(const TaskRun& run) const;
  // Parameters one behind the other.
  struct Stretch {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  // Stretches of the task's chunk, or of the block's chunks whose gradients are summed on the
  // device.
  std::vector<Stretch> stretches(const TaskRun& run) const;
  // Memory for what only some blocks save; null where the task has none.
  static memory::Carver* carver_if_there(TaskRun& run, plan::Role role);
  std::span<const std::int32_t> ids(TaskRun& run, bool targets) const;
  // The sums of squares within a report.
  double* squares(std::byte* report) const;
  const double* squares(const std::byte* report) const;
  // The device's ops on the task's stream, with the task's scratch where it has any.
  kernels::Bound<kernels::ModelOps> model_ops(TaskRun& run);
  // Those of the processor that the task's lane is of.
  kernels::Bound<kernels::OptimizerOps> optimizer(TaskRun& run);

  void embed(TaskRun& run);
  void forward(TaskRun& run);
  void head(TaskRun& run);
  // The piece of the table that the head computes with, the embedding's or its own, and its
  // weights' bytes.
  const plan::BlockPiece& table_piece(const TaskRun& run) const;
  Bytes table_bytes(const TaskRun& run) const;
  void embed_piece(TaskRun& run);
  void embed_piece_backward(TaskRun& run);
  void head_begin(TaskRun& run);
  void head_statistics(TaskRun& run);
  void head_gradients(TaskRun& run);
  void head_end(TaskRun& run);
  void backward(TaskRun& run);
  void embed_backward(TaskRun& run);
  void add_gradient(TaskRun& run);
  void finish_gradient(TaskRun& run);
  void finish_chunk(TaskRun& run);
  void finish_block(TaskRun& run);
  void norm(TaskRun& run);
  // Puts this rank's losses where those of all ranks go.
  void place_losses(TaskRun& run);
  // Of groups of micro-batches, and of several ranks (rank_tasks.cpp):
  void add_to_group(TaskRun& run);
  void exchange_gradients(TaskRun& run);
  void sum_groups(TaskRun& run);
  void gather_report(TaskRun& run);
  void gather_weights(TaskRun& run);
  void update(TaskRun& run);
  void loss(TaskRun& run);

  Runtime& runtime_;
  const model::Decoder& decoder_;
  const model::Parameters& parameters_;
  const states::ChunkMap& map_;
  const plan::Plan& plan_;
  const Bytes report_bytes_;
  Settings settings_;
  std::vector<std::vector<int>> chunks_of_block_;
  Bytes embedding_bytes_ = 0;
  std::array<StepNumbers, 2> numbers_;
  std::array<StepResult, 2> results_;
  std::atomic<std::int64_t> updating_{-1};
};

}  // namespace ebb::engine
