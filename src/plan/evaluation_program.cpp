#include "plan/evaluation_program.h"

#include <stdexcept>

#include <fmt/format.h>

#include "plan/route.h"
#include "plan/scheduler.h"
#include "plan/waits.h"
#include "plan/weight_parts.h"

namespace ebb::plan {
namespace {

class EvaluationBuilder {
 public:
  // Over the persistent objects of a training program.
  EvaluationBuilder(const Plan& training, Bytes slack)
      : work_(training.workload),
        choices_(training.choices),
        depth_(static_cast<int>(Choices::kLeastDepth)),
        slack_(slack) {
    program_.streams = {{"weights", depth_}};
    program_.topology = training.program.topology;
    program_.persistent = training.program.persistent;
    program_.chunks = training.program.chunks;
    for (const Object& object : training.program.objects) {
      if (!object.persistent) break;  // they come first
      program_.objects.push_back(object);
    }
  }

  // Alone, with objects of its own.
  EvaluationBuilder(const Workload& work, const Choices& choices)
      : work_(work), choices_(choices), depth_(static_cast<int>(choices.depth)), alone_(true) {
    program_.streams = {{"weights", depth_}};
    program_.topology = work.topology;
    program_.chunks = cut_chunks(work, choices);
    PersistentObjects& objects = program_.persistent;
    objects.scratch = persistent(Tier::device, Purpose::workspace, work.scratch, "scratch");
    objects.tables = persistent(Tier::device, Purpose::workspace, work.tables, "tables");
    objects.batches = {persistent(Tier::host, Purpose::batch, work.batch, "batch 0")};
    add_weight_homes(program_, work, weight_homes(work, choices));
    objects.states.assign(program_.chunks.size(), -1);
    objects.weight_copies = objects.states;
    objects.report = persistent(Tier::host, Purpose::workspace, kLossBytes, "loss");
  }

  Program build() {
    const PersistentObjects& objects = program_.persistent;
    const ObjectId batch = object(Purpose::batch, work_.batch, "batch 0");
    transfer({Role::source, objects.batches[0], Access::read, {0, work_.batch}},
             {Role::destination, batch, Access::write});
    ObjectId input = -1;
    for (int b = 0; b < work_.blocks.count(); ++b) {
      const Block& block = work_.blocks[b];
      if (is_cut(block, choices_)) {
        if (block.kind == BlockKind::embedding) input = embed_pieces(b, block, batch);
        if (block.kind == BlockKind::head) loss_of_pieces(b, block, input, batch);
        continue;
      }
      const ObjectId weights = bring(b);
      switch (block.kind) {
        case BlockKind::embedding: input = embed(b, block, weights, batch); break;
        case BlockKind::layer: input = forward(b, block, weights, input); break;
        case BlockKind::head: loss(b, block, weights, input, batch); break;
      }
    }
    if (alone_) note_loss();
    place_fetches(program_, std::move(fetches_), {}, Arrival::first_first);
    route(program_, depth_);
    program_.find_lifetimes();
    return std::move(program_);
  }

 private:
  static constexpr Bytes kLossBytes = 8;

  // A block's weights, on the device.
  ObjectId bring(int b) {
    const Block& block = work_.blocks[b];
    const ObjectId home = program_.persistent.weights[b];
    const Bytes bytes = block.weights.bytes(block.parameters);
    if (bytes == 0 || (home >= 0 && program_[home].tier == Tier::device)) return home;
    const ObjectId here = object(Purpose::weights, bytes, block.name + " weights");
    program_.objects.back().stream = 0;
    fetch(b, {0, block.parameters}, here);
    return here;
  }

  void fetch(int b, const TensorRange& wanted, ObjectId here) {
    for (const auto& [from, to] : copies_of_weights(program_, work_, b, wanted, here)) {
      fetches_.push_back(
          {.task = transfer_task(program_, {Role::source, from.object, Access::read, from.range},
                                 {Role::destination, to.object, Access::write, to.range})});
      fetches_.back().task.block = b;
    }
  }

  // A piece's weights, as a task uses them.
  List<Use> bring_piece(Role role, int b, const BlockPiece& piece) {
    const Block& block = work_.blocks[b];
    const ObjectId home = program_.persistent.weights[b];
    List<Use> uses;
    if (home >= 0 && program_[home].tier == Tier::device) {
      for (const Range& range : block.weights.ranges(block.parameters, piece.first, piece.count)) {
        uses.push_back({role, home, Access::read, range});
      }
      return uses;
    }
    const ObjectId here =
        object(Purpose::weights, block.weights.bytes(piece.count), block.name + " weights");
    program_.objects.back().stream = 0;
    fetch(b, {piece.first, piece.count}, here);
    return {{role, here, Access::read}};
  }

  void add_piece(Op op, int b, int piece, const Cost& cost, Bytes work, List<Use> uses,
                 const List<Use>& weights) {
    uses.insert(uses.end(), weights.begin(), weights.end());
    uses.push_back({Role::scratch, program_.persistent.scratch, Access::write});
    uses.push_back({Role::work, object(Purpose::workspace, work, "work"), Access::write});
    add(op, b, cost, std::move(uses));
    program_.tasks.back().names_block = false;
    program_.tasks.back().piece = piece;
  }

  ObjectId embed_pieces(int b, const Block& block, ObjectId batch) {
    const ObjectId output = object(Purpose::activations, work_.input, "input 0");
    for (std::size_t p = 0; p < block.pieces.size(); ++p) {
      const BlockPiece& piece = block.pieces[p];
      const List<Use> weights = bring_piece(Role::weights, b, piece);
      add_piece(Op::embed, b, static_cast<int>(p), piece.forward, piece.forward_work,
                {{Role::batch, batch, Access::read}, {Role::output, output, Access::write}},
                weights);
    }
    return output;
  }

  // The head's first pass over the vocabulary is all that the loss asks for.
  void loss_of_pieces(int b, const Block& block, ObjectId input, ObjectId batch) {
    const int table = work_.tied_sum > 0 ? work_.all_of(BlockKind::embedding).front() : b;
    const Block& its = work_.blocks[table];
    const ObjectId state = object(Purpose::activations, block.pieces_state, "head state");
    const auto last = static_cast<int>(block.pieces.size()) - 1;
    const BlockPiece& norm = block.pieces.back();
    const Use keeps{Role::head_state, state, Access::write};
    const List<Use> norm_weights = bring_piece(Role::weights, b, norm);
    add_piece(Op::head_begin, b, last, norm.forward, norm.forward_work,
              {{Role::input, input, Access::read}, keeps}, norm_weights);
    for (int p = 0; p < last; ++p) {
      const BlockPiece& piece = block.pieces[p];
      const List<Use> weights = bring_piece(Role::head_weights, table, its.pieces[p]);
      add_piece(Op::head_statistics, b, p, piece.forward, piece.forward_work,
                {{Role::batch, batch, Access::read}, keeps}, weights);
    }
    const ObjectId report = object(Purpose::workspace, kLossBytes, "loss");
    add_piece(Op::loss, b, last, block.pieces_loss, 0,
              {{Role::batch, batch, Access::read}, keeps, {Role::report, report, Access::write}},
              {});
    transfer({Role::source, report, Access::read, {0, kLossBytes}},
             {Role::destination, program_.persistent.report, Access::write});
  }

  ObjectId embed(int b, const Block& block, ObjectId weights, ObjectId batch) {
    const ObjectId output = object(Purpose::activations, work_.input, "input 0");
    add(Op::embed, b, block.forward,
        {{Role::weights, weights, Access::read},
         {Role::batch, batch, Access::read},
         {Role::output, output, Access::write},
         {Role::work, object(Purpose::workspace, block.forward_work, "work"), Access::write}});
    program_.tasks.back().names_block = false;
    return output;
  }

  ObjectId forward(int b, const Block& block, ObjectId weights, ObjectId input) {
    const ObjectId output = object(Purpose::activations, work_.input, fmt::format("input {}", b));
    add(Op::forward, b, block.forward,
        {{Role::weights, weights, Access::read},
         {Role::input, input, Access::read},
         {Role::tables, program_.persistent.tables, Access::read},
         {Role::output, output, Access::write},
         {Role::saved, object(Purpose::activations, block.saved, block.name + " saved"),
          Access::write},
         {Role::scratch, program_.persistent.scratch, Access::write},
         {Role::work, object(Purpose::workspace, block.lean_forward_work, block.name + " work"),
          Access::write}});
    return output;
  }

  void loss(int b, const Block& block, ObjectId weights, ObjectId input, ObjectId batch) {
    const PersistentObjects& objects = program_.persistent;
    const bool tied = work_.tied_sum > 0;
    const ObjectId embedding = tied ? bring(work_.all_of(BlockKind::embedding).front()) : -1;
    const ObjectId report = object(Purpose::workspace, kLossBytes, "loss");
    add(Op::loss, b, block.loss,
        {{Role::weights, weights, Access::read},
         {Role::head_weights, embedding, Access::read},
         {Role::input, input, Access::read},
         {Role::batch, batch, Access::read},
         {Role::report, report, Access::write},
         {Role::scratch, objects.scratch, Access::write},
         {Role::work, object(Purpose::workspace, block.loss_work, "head work"), Access::write}});
    program_.tasks.back().names_block = false;
    transfer({Role::source, report, Access::read, {0, kLossBytes}},
             {Role::destination, objects.report, Access::write});
  }

  void note_loss() {
    add(Op::note_loss, -1, {},
        {{Role::report, program_.persistent.report, Access::read, {0, kLossBytes}}});
    program_.tasks.back().lane = Lane::host;
    program_.tasks.back().draw = Draw::nothing;
  }

  ObjectId persistent(Tier tier, Purpose purpose, Bytes bytes, std::string name) {
    const ObjectId id = object(purpose, bytes, std::move(name), tier);
    program_.objects.back().persistent = true;
    return id;
  }
  ObjectId object(Purpose purpose, Bytes bytes, std::string name, Tier tier = Tier::device) {
    program_.objects.push_back({.tier = tier,
                                .purpose = purpose,
                                .bytes = bytes == 0 ? 0 : align_up(bytes) + slack_,
                                .name = std::move(name)});
    return static_cast<ObjectId>(program_.objects.size()) - 1;
  }

  void add(Op op, int block, const Cost& cost, List<Use> uses) {
    std::erase_if(
        uses, [&](const Use& use) { return use.object < 0 || program_[use.object].bytes == 0; });
    program_.tasks.push_back(
        {.op = op, .block = block, .micro = 0, .cost = cost, .uses = std::move(uses)});
  }
  void transfer(Use source, Use destination) {
    program_.tasks.push_back(transfer_task(program_, source, destination, Traffic::express));
  }

  const Workload& work_;
  const Choices& choices_;
  const int depth_;
  const Bytes slack_ = 0;
  const bool alone_ = false;
  Program program_;
  List<Fetch> fetches_;
};

}  // namespace

Program build_evaluation(const Workload& work, const Choices& choices) {
  return EvaluationBuilder(work, choices).build();
}

PerTier<Bytes> sizes_with_evaluation(const Plan& training) {
  const Program program = EvaluationBuilder(training, 0).build();
  Layout training_layout = training.layout;
  // In an arena of another size objects are placed anew, and may find less room.
  while (true) {
    const Layout both = lay_out_beside(program, training.program, training_layout);
    if (both.size == training_layout.size) return both.size;
    training_layout.size = both.size;
  }
}

Evaluation plan_evaluation(const Plan& training, Bytes slack) {
  Evaluation evaluation{.program = EvaluationBuilder(training, slack).build()};
  evaluation.layout = lay_out_beside(evaluation.program, training.program, training.layout);
  if (evaluation.layout.size != training.layout.size) {
    throw std::logic_error("an evaluation that needs more memory than training");
  }
  add_waits(evaluation.program, evaluation.layout);
  evaluation.seconds = simulate(evaluation.program, training.profile).step_seconds;
  return evaluation;
}

}  // namespace ebb::plan
