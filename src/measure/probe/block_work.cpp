#include "measure/probe/block_work.h"

#include <algorithm>
#include <vector>

#include "base/to_size.h"
#include "engine/workload.h"
#include "measure/probe/random_values.h"

namespace ebb::measure {
namespace {

// What a real run of this model would count: the sizes below are those that training uses.
plan::Workload workload_of(engine::Runtime& runtime, const model::Decoder& decoder) {
  kernels::CountingOps ops(runtime.device_model());
  return engine::training_workload(decoder, model::parameters_of(decoder.config()), ops, {});
}

}  // namespace

// Where everything lies. Nothing shares a place with what has another type: bits of the one would
// be infinities of the other.
struct BlockWork::Places {
  Places(const plan::Workload& work, memory::Carver all) {
    const plan::Block &block = work.blocks[1], &last = work.blocks[2];
    weights = all.take(block.weights.bytes(block.parameters));
    head = all.take(last.weights.bytes(last.parameters));
    tables = all.take_as<float>(work.tables / 4);
    input = all.take(work.input);
    output = all.take(work.input);
    residual = all.take(work.input);
    gradient = all.take(std::max(block.parameters, last.parameters) * work.gradient_bytes);
    saved = all.take(block.saved);
    mlp = all.take(block.saved_mlp);
    forward_work = all.take(block.forward_work);
    head_work = all.take(last.backward_work);
    backward_work = all.take(block.backward_work);
    scratch = all.take(work.scratch);
    values_end = all.used();
    targets = all.take_as<std::int32_t>(work.tokens);
    loss = all.take_as<double>(1);
    bytes = all.used();
  }

  std::byte *weights, *head, *input, *output, *residual, *gradient, *saved, *mlp;
  std::byte *forward_work, *head_work, *backward_work, *scratch;
  float* tables;
  std::int32_t* targets;
  double* loss;
  Bytes values_end = 0, bytes = 0;
};

Bytes BlockWork::bytes(engine::Runtime& runtime, const model::Config& config, DType type,
                       model::Shape shape) {
  const model::Decoder decoder(config, type, type, shape);
  return Places(workload_of(runtime, decoder), memory::Carver::measuring()).bytes;
}

BlockWork::BlockWork(engine::Runtime& runtime, device::Stream& stream, const model::Config& config,
                     DType type, model::Shape shape)
    : library_(runtime.device_model()),
      stream_(stream),
      decoder_(config, type, type, shape),
      work_(workload_of(runtime, decoder_)),
      buffer_(runtime.device().allocate_device(Places(work_, memory::Carver::measuring()).bytes)) {
  const Places at(work_, {buffer_->data(), buffer_->bytes()});
  fill_with_random_values(stream, buffer_->data(), at.values_end, type);
  // Zeros are targets that any vocabulary has.
  const Bytes rest = at.bytes - at.values_end;
  const std::vector<std::byte> zeros(to_size(rest));
  stream.copy_now(buffer_->data() + at.values_end, zeros.data(), rest);
}

// Places are cut anew by each call: the same numbers in the same order give the same addresses.
kernels::Bound<kernels::ModelOps> BlockWork::ops() {
  const Places at(work_, {buffer_->data(), buffer_->bytes()});
  return library_.ops({&stream_, {at.scratch, to_size(work_.scratch)}});
}

plan::Cost BlockWork::cost() const {
  plan::Cost cost = work_.blocks[1].forward;
  cost += work_.blocks[1].backward;
  cost += work_.blocks[2].backward;
  return cost;
}

// Forward, head and backward of one block, as a step of a model of one block would order them.
// Backward reads what forward saved: carvers that begin again give the same addresses.
void BlockWork::run(kernels::ModelOps& ops) {
  const Places at(work_, {buffer_->data(), buffer_->bytes()});
  const plan::Block &block = work_.blocks[1], &last = work_.blocks[2];
  memory::Carver saved(at.saved, block.saved), saved_again = saved;
  memory::Carver mlp(at.mlp, block.saved_mlp), mlp_again = mlp;
  memory::Carver first(at.forward_work, block.forward_work);
  memory::Carver second(at.head_work, last.backward_work);
  memory::Carver third(at.backward_work, block.backward_work);
  decoder_.forward(ops, 0, decoder_.micro_batch(),
                   {.weights = at.weights,
                    .tables = at.tables,
                    .input = at.input,
                    .output = at.output,
                    .saved = &saved,
                    .mlp = &mlp},
                   first);
  decoder_.head(ops, {.weights = at.head, .gradient = at.gradient, .loss = at.loss}, at.output,
                {at.targets, to_size(work_.tokens)}, at.residual, second);
  decoder_.backward(ops, 0,
                    {.weights = at.weights,
                     .tables = at.tables,
                     .input = at.input,
                     .residual = at.residual,
                     .gradient = at.gradient,
                     .mlp = &mlp_again},
                    saved_again, third);
}

}  // namespace ebb::measure
