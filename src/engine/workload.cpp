#include "engine/workload.h"

#include <algorithm>
#include <map>

#include "kernels/optimizer_ops.h"

namespace ebb::engine {
namespace {

using memory::Carver;

// Addresses that nobody follows, for code that only counts.
std::byte* nowhere() { return Carver::measuring().take(0); }
std::span<const std::int32_t> no_ids(std::int64_t count) {
  return {reinterpret_cast<const std::int32_t*>(nowhere()), static_cast<std::size_t>(count)};
}

// Counts, and remembers products.
class RecordingOps : public kernels::CountingOps {
 public:
  using CountingOps::CountingOps;
  std::vector<kernels::Product> products;

 protected:
  void call(const kernels::OpCall& call, std::initializer_list<kernels::Address> addresses,
            FunctionRef<void(kernels::ModelOps&)> run) override {
    CountingOps::call(call, addresses, run);
    if (call.product != nullptr) products.push_back(*call.product);
  }
};

class Measurer {
 public:
  Measurer(const model::Decoder& decoder, kernels::CountingOps& ops)
      : decoder_(decoder), ops_(ops) {}

  void embedding(plan::Block& block) {
    const auto ids = no_ids(decoder_.shape().tokens());
    block.forward = cost([&] {
      decoder_.embed(ops_, nowhere(), ids, {.start = 0, .length = decoder_.shape().sequence},
                     nowhere());
    });
    Carver work = Carver::measuring();
    block.backward =
        cost([&] { decoder_.embed_backward(ops_, ids, nowhere(), nowhere(), nowhere(), work); });
    block.backward_work = work.used();
  }

  void transformer(plan::Block& block, std::int64_t layer) {
    const auto* tables = reinterpret_cast<const float*>(nowhere());
    Carver saved = Carver::measuring();
    Carver forward_work = Carver::measuring();
    model::ForwardMemory memory{
        .weights = nowhere(), .tables = tables, .input = nowhere(), .output = nowhere()};
    block.forward = cost([&] { decoder_.forward(ops_, layer, memory, saved, forward_work); });
    block.saved = saved.used();
    block.forward_work = forward_work.used();
    Carver again = Carver::measuring();
    Carver again_work = Carver::measuring();
    Carver kept = Carver::measuring();
    memory.kept = &kept;
    cost([&] { decoder_.forward(ops_, layer, memory, again, again_work); });
    block.kept = kept.used();
    block.kept_forward_work = again_work.used();
    again = Carver::measuring();
    again_work = Carver::measuring();
    memory.kept = nullptr;
    memory.output = nullptr;
    block.recompute = cost([&] { decoder_.forward(ops_, layer, memory, again, again_work); });
    block.recompute_work = again_work.used();
    block.backward = backward(layer, nullptr, block.backward_work);
    kept = Carver::measuring();
    block.made_again = block.backward;
    block.made_again -= backward(layer, &kept, block.kept_backward_work);
  }

  void head(plan::Block& block) {
    Carver work = Carver::measuring();
    block.backward = cost([&] {
      decoder_.head(ops_,
                    {.weights = nowhere(),
                     .embedding = nowhere(),
                     .gradient = nowhere(),
                     .tied_sum = nowhere(),
                     .loss = reinterpret_cast<double*>(nowhere())},
                    nowhere(), no_ids(decoder_.shape().tokens()), nowhere(), work);
    });
    block.backward_work = work.used();
    Carver loss_work = Carver::measuring();
    block.loss = cost([&] {
      decoder_.loss(ops_, nowhere(), nowhere(), nowhere(), no_ids(decoder_.shape().tokens()),
                    reinterpret_cast<double*>(nowhere()), loss_work);
    });
    block.loss_work = loss_work.used();
  }

  Bytes scratch() const { return scratch_; }

 private:
  plan::Cost backward(std::int64_t layer, Carver* kept, Bytes& work_bytes) {
    Carver saved = Carver::measuring();
    Carver work = Carver::measuring();
    const plan::Cost found = cost([&] {
      decoder_.backward(ops_, layer,
                        {.weights = nowhere(),
                         .tables = reinterpret_cast<const float*>(nowhere()),
                         .input = nowhere(),
                         .residual = nowhere(),
                         .gradient = nowhere(),
                         .kept = kept},
                        saved, work);
    });
    work_bytes = work.used();
    return found;
  }
  template <class Run>
  plan::Cost cost(Run run) {
    run();
    const auto count = ops_.take();
    scratch_ = std::max(scratch_, count.scratch);
    return cost_of(count.calls);
  }

  const model::Decoder& decoder_;
  kernels::CountingOps& ops_;
  Bytes scratch_ = 0;
};

}  // namespace

std::vector<kernels::Product> training_products(const model::Decoder& decoder,
                                                const kernels::WorkspaceNeeds& needs) {
  RecordingOps ops(needs);
  Measurer measure(decoder, ops);
  plan::Block block;
  measure.transformer(block, 0);  // others differ in their windows at most
  measure.head(block);
  return std::move(ops.products);
}

plan::Cost cost_of(std::span<const kernels::CountingOps::Call> calls) {
  using Kind = kernels::CountingOps::Kind;
  plan::Cost cost{.calls = static_cast<double>(calls.size())};
  for (const auto& call : calls) {
    switch (call.kind) {
      case Kind::product:
        (call.shortest < plan::kNarrow ? cost.narrow_flops : cost.flops) += call.flops;
        break;
      case Kind::attention: cost.attention_flops += call.flops; break;
      case Kind::attention_backward: cost.attention_backward_flops += call.flops; break;
      case Kind::pass: cost.pass_bytes += call.bytes; break;
    }
  }
  return cost;
}

plan::Block describe_block(const model::ParameterBlock& block, DType weights) {
  using Kind = model::ParameterBlock::Kind;
  plan::BlockKind kind{};
  switch (block.kind) {
    case Kind::embedding: kind = plan::BlockKind::embedding; break;
    case Kind::layer: kind = plan::BlockKind::layer; break;
    case Kind::head: kind = plan::BlockKind::head; break;
  }
  return {.kind = kind,
          .name = block.name,
          .parameters = block.length,
          .weights = {{size_of(weights)}}};
}

plan::Workload training_workload(const model::Decoder& decoder, const model::Parameters& parameters,
                                 kernels::CountingOps& ops, const TrainingShape& shape) {
  plan::Workload work;
  plan::Planes states;
  for (const optim::Plane plane : optim::state_planes(shape.state)) {
    const optim::Grain grain = optim::grain_of(plane, shape.state);
    states.add({grain.bytes, grain.per});
  }
  Measurer measure(decoder, ops);
  // Transformer blocks differ in their windows at most: one of each is measured.
  std::map<std::int64_t, plan::Block> measured;
  for (const model::ParameterBlock& from : parameters.blocks) {
    plan::Block block = describe_block(from, shape.state.weight_type);
    switch (block.kind) {
      case plan::BlockKind::embedding: measure.embedding(block); break;
      case plan::BlockKind::head: measure.head(block); break;
      case plan::BlockKind::layer: {
        const auto [like, is_new] =
            measured.try_emplace(decoder.config().window(from.layer), block);
        if (is_new) measure.transformer(like->second, from.layer);
        block = like->second;
        block.name = from.name;
        break;
      }
    }
    block.states = states;
    for (const int p : from.parameters) {
      const model::Parameter& parameter = parameters.all[static_cast<std::size_t>(p)];
      block.tensors.push_back({parameter.first, parameter.count()});
    }
    work.blocks.push_back(std::move(block));
  }

  work.micro_batches = shape.accumulate;
  work.tokens = decoder.shape().tokens();
  work.batch = 2 * work.tokens * static_cast<Bytes>(sizeof(std::int32_t));
  work.input = decoder.input_bytes();
  work.tied_sum = decoder.tied_sum_bytes();
  work.scratch = measure.scratch();
  work.tables = decoder.table_bytes(decoder.shape().sequence);
  work.gradient_bytes = size_of(shape.gradient_type);
  work.norm_block = kernels::kNormBlock;
  work.extras = shape.extras;
  work.extras.insert(work.extras.begin(), {plan::Tier::device, "libraries", ops.library_bytes()});
  work.task_bytes = shape.task_bytes;
  return work;
}

}  // namespace ebb::engine
