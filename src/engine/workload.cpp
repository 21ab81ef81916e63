#include "engine/workload.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/to_size.h"
#include "kernels/optimizer_ops.h"

namespace ebb::engine {
namespace {

using memory::Carver;

// Addresses that nobody follows, for code that only counts.
std::byte* nowhere() { return Carver::measuring().take(0); }
std::span<const std::int32_t> no_ids(std::int64_t count) {
  return {reinterpret_cast<const std::int32_t*>(nowhere()), to_size(count)};
}

// Counts, and remembers products: those are what algorithms are chosen for.
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

// Runs each part of the model with ops that count and carvers that measure, so that a block's costs
// and bytes are those of the code that training runs. Memory is never touched.
class Measurer {
 public:
  Measurer(const model::Decoder& decoder, kernels::CountingOps& ops)
      : decoder_(decoder), ops_(ops) {}

  void embedding(plan::Block& block) {
    const auto ids = no_ids(decoder_.shape().tokens());
    embed_alone(block);
    Carver work = Carver::measuring();
    block.backward =
        cost([&] { decoder_.embed_backward(ops_, ids, nowhere(), nowhere(), nowhere(), work); });
    block.backward_work = work.used();
    for (int p = 0; p < decoder_.pieces().count && !block.pieces.empty(); ++p) {
      plan::BlockPiece& piece = block.pieces[p];
      work = Carver::measuring();
      piece.backward = cost([&] {
        decoder_.embed_piece_backward(ops_, p, ids, nowhere(), nowhere(), nowhere(), work);
      });
      piece.backward_work = work.used();
    }
    if (block.pieces.count() > decoder_.pieces().count) {
      block.pieces.back().backward =
          cost([&] { decoder_.positions_backward(ops_, nowhere(), nowhere()); });
    }
  }

  void transformer(plan::Block& block, std::int64_t layer) {
    const Measured usual = both(layer, {.mlp = true});
    block.forward = usual.forward;
    block.backward = usual.backward;
    block.saved = usual.saved;
    block.saved_mlp = usual.saved_mlp;
    block.forward_work = usual.forward_work;
    block.backward_work = usual.backward_work;
    // What a block costs and holds where it also saves what is cheap to make again; the difference
    // of the backward passes is what making it again takes.
    const Measured keeping = both(layer, {.mlp = true, .cheap_saved = true});
    block.cheap_saved = keeping.cheap_saved;
    block.kept_forward_work = keeping.forward_work;
    block.kept_backward_work = keeping.backward_work;
    block.cheap_recompute = usual.backward;
    block.cheap_recompute -= keeping.backward;
    // The other end: the MLP's forward runs again in the backward.
    const Measured lean = both(layer, {});
    block.lean_forward_work = lean.forward_work;
    block.lean_backward_work = lean.backward_work;
    block.mlp_again = lean.backward;
    block.mlp_again -= usual.backward;
    Carver saved = Carver::measuring(), work = Carver::measuring();
    // No output: the next block has read it long ago. The MLP runs only as far as its backward
    // needs.
    block.recompute = cost([&] {
      decoder_.forward(ops_, layer, decoder_.micro_batch(),
                       {.weights = nowhere(),
                        .tables = tables(),
                        .input = nowhere(),
                        .output = nullptr,
                        .saved = &saved},
                       work);
    });
    block.recompute_work = work.used();
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
    loss_alone(block);
    if (decoder_.pieces().count > 1) head_pieces(block);
  }

  // Evaluation: what a block does where nothing goes backward. Of its scratch, too.
  void evaluate(plan::Block& block, std::int64_t layer) {
    switch (block.kind) {
      case plan::BlockKind::embedding: return embed_alone(block);
      case plan::BlockKind::layer: return forward_alone(block, layer);
      case plan::BlockKind::head:
        loss_alone(block);
        if (decoder_.pieces().count > 1) statistics_of_pieces(block);
        return;
    }
  }

  // Generation: tokens of one sequence, with the cache of those before them.
  // Weights are of the decoder's type, or as the layout has those of the model's block number `b`.
  void pass(plan::Block& block, std::int64_t layer, model::Decoder::Sequences tokens,
            const model::WeightLayout* layout, std::int64_t b) {
    const auto weights = [&](std::int64_t of) {
      return model::BlockWeights(nowhere(), layout == nullptr ? nullptr : &(*layout)[of]);
    };
    std::int64_t count = 0;
    for (const model::SequenceTokens& each : tokens) count += each.length;
    Carver work = Carver::measuring();
    const model::ForwardMemory memory{
        .weights = weights(b), .tables = tables(), .input = nowhere(), .output = nowhere()};
    block.forward = cost(
        [&] {
          switch (block.kind) {
            case plan::BlockKind::embedding:
              return decoder_.embed(ops_, weights(b), no_ids(count), tokens, nowhere());
            case plan::BlockKind::layer:
              return block.half == plan::LayerHalf::mlp
                         ? decoder_.forward_mlp(ops_, tokens, memory, work)
                         : decoder_.forward_attention(ops_, layer, tokens, memory, work);
            case plan::BlockKind::head:
              return decoder_.logits(ops_, weights(b), weights(0), nowhere(), tokens,
                                     reinterpret_cast<float*>(nowhere()), work);
          }
        },
        Counts::reading);
    block.forward_work = work.used();
  }

  // The most that any call so far wanted: tasks of one lane share one scratch.
  Bytes scratch() const { return scratch_; }

 private:
  // The pieces of the vocabulary in a block that has a table, or, of a tied head, in none.
  std::vector<plan::BlockPiece> pieces_of_table(bool has_table) const {
    const model::Config& config = decoder_.config();
    const model::VocabularyPieces& pieces = decoder_.pieces();
    List<plan::BlockPiece> made(pieces.count);
    for (int p = 0; p < pieces.count && has_table; ++p) {
      made[p].first = pieces.first(p) * config.hidden;
      // Padding belongs to the last one.
      const std::int64_t end = p + 1 < pieces.count
                                   ? pieces.first(p + 1) * config.hidden
                                   : model::block_length(config.vocabulary * config.hidden);
      made[p].count = end - pieces.first(p) * config.hidden;
    }
    return made;
  }

  void embed_alone(plan::Block& block) {
    const auto ids = no_ids(decoder_.shape().tokens());
    const model::TokenRange row{.start = 0, .length = decoder_.shape().sequence};
    block.forward = cost([&] { decoder_.embed(ops_, nowhere(), ids, row, nowhere()); });
    if (decoder_.pieces().count <= 1) return;
    block.pieces = pieces_of_table(true);
    for (int p = 0; p < decoder_.pieces().count; ++p) {
      block.pieces[p].forward =
          cost([&] { decoder_.embed_piece(ops_, p, nowhere(), ids, nowhere()); });
    }
    // Learned positions are one more piece, behind those of the vocabulary.
    if (decoder_.config().positions != model::Config::Positions::learned) return;
    const std::int64_t first = model::positions_place(decoder_.config());
    block.pieces.push_back({.first = first, .count = block.parameters - first});
    block.pieces.back().forward =
        cost([&] { decoder_.embed_positions(ops_, nowhere(), row, nowhere()); });
  }

  void forward_alone(plan::Block& block, std::int64_t layer) {
    Carver saved = Carver::measuring(), work = Carver::measuring();
    block.forward = cost([&] {
      decoder_.forward(ops_, layer, decoder_.micro_batch(),
                       {.weights = nowhere(),
                        .tables = tables(),
                        .input = nowhere(),
                        .output = nowhere(),
                        .saved = &saved},
                       work);
    });
    block.saved = saved.used();
    block.lean_forward_work = work.used();
  }

  void loss_alone(plan::Block& block) {
    Carver work = Carver::measuring();
    block.loss = cost([&] {
      decoder_.loss(ops_, nowhere(), nowhere(), nowhere(), no_ids(decoder_.shape().tokens()),
                    reinterpret_cast<double*>(nowhere()), work);
    });
    block.loss_work = work.used();
  }

  // The head's first pass over the pieces of the vocabulary, and the loss that follows from it. The
  // last norm is one more piece, behind those of the vocabulary.
  void statistics_of_pieces(plan::Block& block) {
    const auto targets = no_ids(decoder_.shape().tokens());
    block.pieces = pieces_of_table(!decoder_.config().tied);
    for (int p = 0; p < decoder_.pieces().count; ++p) {
      plan::BlockPiece& piece = block.pieces[p];
      Carver keeps = Carver::measuring(), work = Carver::measuring();
      piece.forward =
          cost([&] { decoder_.head_statistics(ops_, p, nowhere(), targets, keeps, work); });
      piece.forward_work = work.used();
    }
    const plan::BlockPiece& before = block.pieces.back();
    const std::int64_t first = before.first + before.count;
    plan::BlockPiece& norm = block.pieces.emplace_back(
        plan::BlockPiece{.first = first, .count = block.parameters - first});
    Carver keeps = Carver::measuring();
    norm.forward = cost([&] { decoder_.head_begin(ops_, nowhere(), nowhere(), keeps); });
    block.pieces_state = keeps.used();
    keeps = Carver::measuring();
    block.pieces_loss = cost(
        [&] { decoder_.head_loss(ops_, targets, reinterpret_cast<double*>(nowhere()), keeps); });
  }

  // One piece after the other, twice: statistics of every row first, then gradients with them.
  void head_pieces(plan::Block& block) {
    const auto targets = no_ids(decoder_.shape().tokens());
    statistics_of_pieces(block);
    for (int p = 0; p < decoder_.pieces().count; ++p) {
      plan::BlockPiece& piece = block.pieces[p];
      Carver keeps = Carver::measuring(), work = Carver::measuring();
      piece.backward = cost([&] {
        decoder_.head_gradients(ops_, p,
                                {.table = nowhere(),
                                 .gradient = nowhere(),
                                 .tied_sum = nowhere(),
                                 .dnormed = nowhere()},
                                targets, keeps, work);
      });
      piece.backward_work = work.used();
    }
    block.pieces_gradient = decoder_.dnormed_bytes();
    plan::BlockPiece& norm = block.pieces.back();
    Carver keeps = Carver::measuring();
    norm.backward = cost([&] {
      decoder_.head_end(ops_,
                        {.norm = nowhere(),
                         .norm_gradient = nowhere(),
                         .input = nowhere(),
                         .dnormed = nowhere(),
                         .residual = nowhere()},
                        keeps);
    });
    // Training makes the loss in the task that ends the head; evaluation in one of its own.
    norm.backward += block.pieces_loss;
  }

  // Optional parts that a block saves besides what all do.
  struct Saves {
    bool mlp = false, cheap_saved = false;
  };
  struct Measured {
    plan::Cost forward, backward;
    Bytes saved = 0, saved_mlp = 0, cheap_saved = 0, forward_work = 0, backward_work = 0;
  };
  Measured both(std::int64_t layer, Saves saves) {
    // A null carver tells the decoder that this is not saved.
    Carver saved = Carver::measuring(), mlp = saved, cheap_saved = saved, work = saved;
    Carver* const own_mlp = saves.mlp ? &mlp : nullptr;
    Carver* const own_cheap = saves.cheap_saved ? &cheap_saved : nullptr;
    Measured found;
    found.forward = cost([&] {
      decoder_.forward(ops_, layer, decoder_.micro_batch(),
                       {.weights = nowhere(),
                        .tables = tables(),
                        .input = nowhere(),
                        .output = nowhere(),
                        .saved = &saved,
                        .mlp = own_mlp,
                        .cheap_saved = own_cheap},
                       work);
    });
    found.saved = saved.used();
    found.saved_mlp = mlp.used();
    found.cheap_saved = cheap_saved.used();
    found.forward_work = work.used();
    saved = mlp = cheap_saved = work = Carver::measuring();
    found.backward = cost([&] {
      decoder_.backward(ops_, layer,
                        {.weights = nowhere(),
                         .tables = tables(),
                         .input = nowhere(),
                         .residual = nowhere(),
                         .gradient = nowhere(),
                         .mlp = own_mlp,
                         .cheap_saved = own_cheap},
                        saved, work);
    });
    found.backward_work = work.used();
    return found;
  }
  static const float* tables() { return reinterpret_cast<const float*>(nowhere()); }
  // `reading` adds what products and attention read: of few tokens that, and not arithmetic, takes
  // their time.
  enum class Counts : std::uint8_t { work, reading };
  template <class Run>
  plan::Cost cost(Run run, Counts counts = Counts::work) {
    run();
    const auto count = ops_.take();
    scratch_ = std::max(scratch_, count.scratch);
    plan::Cost cost = cost_of(count.calls);
    for (const auto& call : count.calls) {
      const bool reads = counts == Counts::reading && call.kind != kernels::OpKind::pass;
      if (reads) cost.read_bytes += call.bytes;
    }
    return cost;
  }

  const model::Decoder& decoder_;
  kernels::CountingOps& ops_;
  Bytes scratch_ = 0;
};

// All blocks, measured by a function of a block, its layer and its number. Transformer blocks
// differ in their windows and in the types of their weights at most: one of each is measured.
template <class Measure>
std::vector<plan::Block> describe_blocks(const model::Decoder& decoder,
                                         const model::Parameters& parameters, DType weights,
                                         const model::WeightLayout* layout, Measure measure) {
  using Likeness = std::tuple<plan::LayerHalf, std::int64_t, List<model::StoredRun>>;
  std::map<Likeness, plan::Block> layers;  // by half, window and types
  std::vector<plan::Block> blocks;
  for (std::int64_t b = 0; b < parameters.blocks.count(); ++b) {
    const model::ParameterBlock& from = parameters.blocks[b];
    const model::BlockLayout* const places = layout == nullptr ? nullptr : &(*layout)[b];
    plan::Block block = describe_block(from, weights, places);
    if (block.kind == plan::BlockKind::layer) {
      const auto [like, is_new] =
          layers.try_emplace({block.half, decoder.config().window(from.layer),
                              places == nullptr ? List<model::StoredRun>() : places->runs()},
                             block);
      if (is_new) measure(like->second, from.layer, b);
      block = like->second;
      block.name = from.name;
    } else {
      measure(block, from.layer, b);
    }
    blocks.push_back(std::move(block));
  }
  return blocks;
}

void add_tensors(plan::Workload& work, const model::Parameters& parameters) {
  for (std::size_t b = 0; b < work.blocks.size(); ++b) {
    for (const int p : parameters.blocks[b].parameters) {
      const model::Parameter& parameter = parameters.all[p];
      work.blocks[b].tensors.push_back({parameter.first, parameter.count()});
    }
  }
}

void fill_batch(plan::Workload& work, const model::Decoder& decoder) {
  work.tokens = decoder.shape().tokens();
  // Ids and targets.
  work.batch = 2 * work.tokens * static_cast<Bytes>(sizeof(std::int32_t));
  work.input = decoder.input_bytes();
  work.tied_sum = decoder.tied_sum_bytes();
  work.tables = decoder.table_bytes(decoder.shape().sequence);
}

void add_extras(plan::Workload& work, const kernels::CountingOps& ops,
                const std::vector<plan::Extra>& extras) {
  work.extras = extras;
  work.extras.insert(work.extras.begin(), {plan::Tier::device, "libraries", ops.library_bytes()});
}

}  // namespace

std::vector<kernels::Product> evaluation_products(const model::Decoder& decoder,
                                                  const kernels::WorkspaceNeeds& needs) {
  RecordingOps ops(needs);
  Measurer measure(decoder, ops);
  plan::Block layer, head;
  head.kind = plan::BlockKind::head;
  measure.evaluate(layer, 0);  // others differ in their windows at most
  measure.evaluate(head, 0);
  return std::move(ops.products);
}

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
      // A product with a short side is bound by other things than one that fills the device.
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

plan::Block describe_block(const model::ParameterBlock& block, DType weights,
                           const model::BlockLayout* layout) {
  using Kind = model::ParameterBlock::Kind;
  plan::BlockKind kind{};
  switch (block.kind) {
    case Kind::embedding: kind = plan::BlockKind::embedding; break;
    case Kind::layer: kind = plan::BlockKind::layer; break;
    case Kind::head: kind = plan::BlockKind::head; break;
  }
  plan::LayerHalf half = plan::LayerHalf::both;
  if (block.half == model::ParameterBlock::Half::attention) half = plan::LayerHalf::attention;
  if (block.half == model::ParameterBlock::Half::mlp) half = plan::LayerHalf::mlp;
  return {.kind = kind,
          .half = half,
          .name = block.name,
          .parameters = block.length,
          // Of several types they are one grain: they come and go together.
          .weights = {layout == nullptr ? Grain{size_of(weights), 1}
                                        : Grain{layout->bytes(), block.length}}};
}

plan::Workload training_workload(const model::Decoder& decoder, const model::Parameters& parameters,
                                 kernels::CountingOps& ops, const TrainingShape& shape) {
  plan::Workload work;
  plan::Planes states;
  for (const states::Plane plane : states::state_planes(shape.state)) {
    const states::Grain grain = states::grain_of(plane, shape.state);
    states.add({grain.bytes, grain.per});
  }
  Measurer measure(decoder, ops);
  work.blocks = describe_blocks(decoder, parameters, shape.state.weight_type, nullptr,
                                [&](plan::Block& block, std::int64_t layer, std::int64_t) {
                                  switch (block.kind) {
                                    case plan::BlockKind::embedding:
                                      return measure.embedding(block);
                                    case plan::BlockKind::head: return measure.head(block);
                                    case plan::BlockKind::layer:
                                      return measure.transformer(block, layer);
                                  }
                                });
  for (plan::Block& block : work.blocks) block.states = states;
  add_tensors(work, parameters);

  work.micro_batches = shape.accumulate;
  fill_batch(work, decoder);
  work.scratch = measure.scratch();
  work.gradient_bytes = size_of(shape.gradient_type);
  work.norm_block = kernels::kNormBlock;
  add_extras(work, ops, shape.extras);
  work.task_bytes = shape.task_bytes;
  return work;
}

plan::Workload evaluation_workload(const model::Decoder& decoder,
                                   const model::Parameters& parameters, kernels::CountingOps& ops,
                                   const EvaluationShape& shape) {
  Measurer measure(decoder, ops);
  plan::Workload work;
  work.blocks = describe_blocks(decoder, parameters, shape.dtype, nullptr,
                                [&](plan::Block& block, std::int64_t layer, std::int64_t) {
                                  measure.evaluate(block, layer);
                                });
  add_tensors(work, parameters);
  fill_batch(work, decoder);
  work.scratch = measure.scratch();
  work.norm_block = kernels::kNormBlock;
  add_extras(work, ops, shape.extras);
  work.task_bytes = shape.task_bytes;
  return work;
}

plan::GenerationWork generation_work(const model::Decoder& decoder,
                                     const model::Parameters& parameters, kernels::CountingOps& ops,
                                     const GenerationShape& shape, std::int64_t slice) {
  const model::Config& config = decoder.config();
  const Bytes element = size_of(shape.dtype), row = decoder.cache_row_bytes();
  Measurer measure(decoder, ops);
  std::optional<kernels::CountingOps> cpu_ops;
  std::optional<Measurer> cpu;
  if (shape.cpu != nullptr) cpu.emplace(decoder, cpu_ops.emplace(*shape.cpu));
  const Bytes cache = shape.sequence_cache(row);
  // A run of `length` tokens of so many sequences, each behind `start` others.
  const auto pass = [&](std::int64_t start, std::int64_t length, std::int64_t sequences) {
    const std::int64_t tokens = sequences * length;
    plan::Workload work{
        .topology = shape.topology,
        .tokens = tokens,
        // The longest of both kinds of runs has room.
        .batch = std::max(tokens, shape.sequences) * static_cast<Bytes>(sizeof(std::int32_t)),
        .input = tokens * config.hidden * element,
        .tables = decoder.table_bytes(shape.positions),
        .logits = config.vocabulary * 4,
        .sequences = shape.sequences,
        .tied = config.tied,
        .extras = shape.extras,
        .task_bytes = shape.task_bytes};
    work.extras.insert(work.extras.begin(), {plan::Tier::device, "libraries", ops.library_bytes()});
    const List<model::SequenceTokens> each(sequences, {start, length, {nowhere()}});
    work.blocks = describe_blocks(decoder, parameters, shape.dtype, shape.layout,
                                  [&](plan::Block& block, std::int64_t layer, std::int64_t b) {
                                    // Of the CPU's for its scratch alone.
                                    if (cpu) cpu->pass(block, layer, each, shape.layout, b);
                                    measure.pass(block, layer, each, shape.layout, b);
                                    if (block.half != plan::LayerHalf::attention) return;
                                    block.cache = shape.sequences * cache;
                                    block.cached = start * row;
                                    block.cache_added = length * row;
                                  });
    return work;
  };
  const std::int64_t prompt = shape.prompt();
  slice = std::min(slice, prompt);
  plan::GenerationWork work{
      .sequences = shape.sequences,
      .prompt_tokens = prompt,
      .max_tokens = shape.positions - prompt,
      .slices = prompt / slice,
      .context = std::min(shape.positions - 1, (prompt + shape.positions) / 2)};
  // Attention over more positions may want more scratch: that of the last ones is counted, too.
  pass(shape.positions - slice, slice, 1);
  pass(shape.positions - 1, 1, shape.sequences);
  // Costs are those in the middle: attention grows with what lies before.
  work.slice = pass((work.slices - 1) * slice / 2, slice, 1);
  if (prompt % slice != 0) work.rest = pass(work.slices * slice, prompt % slice, 1);
  work.token = pass(work.context, 1, shape.sequences);
  for (plan::Workload* each : {&work.slice, &work.token, work.rest ? &*work.rest : nullptr}) {
    if (each == nullptr) continue;
    each->scratch = measure.scratch();
    if (!cpu) continue;
    each->host_scratch = cpu->scratch();
    each->host_libraries = shape.cpu->library_bytes();
  }
  return work;
}

}  // namespace ebb::engine
