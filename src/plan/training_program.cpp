#include "plan/training_program.h"

#include <algorithm>

#include <fmt/format.h>

#include "plan/route.h"
#include "plan/rules/step.h"
#include "plan/scheduler.h"

namespace ebb::plan {
namespace {

class Passes {
 public:
  explicit Passes(Step& step) : step_(step) {
    for (const auto make : training_rules()) {
      auto rule = make();
      if (rule->applies(step.work)) rules_.push_back(std::move(rule));
    }
  }

  void run() {
    start();
    for (step_.micro = 0; step_.micro <= step_.last_micro(); ++step_.micro) {
      if (step_.micro == step_.last_micro()) step_.last_pass_start = step_.next_task();
      forward_pass();
      backward_pass();
    }
    for (const auto& rule : rules_) rule->finish(step_);
  }

 private:
  void start() {
    PersistentObjects& objects = step_.program.persistent;
    objects.scratch =
        step_.persistent(Tier::device, Purpose::workspace, step_.work.scratch, "scratch");
    objects.tables =
        step_.persistent(Tier::device, Purpose::workspace, step_.work.tables, "tables");
    // A rank that has no micro-batch of its own evaluates all the same.
    for (int m = 0; m <= std::max(0, step_.last_micro()); ++m) {
      objects.batches.push_back(step_.persistent(Tier::host, Purpose::batch, step_.work.batch,
                                                 fmt::format("batch {}", m)));
    }
    for (const auto& rule : rules_) rule->start(step_);
  }

  void forward_pass() {
    step_.batch = step_.object(Tier::device, Purpose::batch, step_.work.batch,
                               fmt::format("batch {}", step_.micro));
    Task& load =
        step_.transfer({step_.program.persistent.batches[step_.micro], {0, step_.work.batch}},
                       {step_.batch}, Traffic::express);
    load.micro = step_.micro;
    for (int b = 0; b < step_.blocks(); ++b) {
      if (step_.block(b).kind == BlockKind::head) continue;  // runs with its backward
      if (step_.is_cut(b)) {
        embed_pieces(b);
        continue;
      }
      for (const auto& rule : rules_) rule->before_forward(step_, b);
      if (step_.block(b).kind == BlockKind::embedding) {
        embed(b);
      } else {
        run_layer(step_, Op::forward, b, input_of(b + 1));
      }
      for (const auto& rule : rules_) rule->after_forward(step_, b);
    }
  }

  ObjectId input_of(int b) {
    step_.inputs[b] = step_.object(Tier::device, Purpose::activations, step_.work.input,
                                   fmt::format("input {}", b - 1));
    return step_.inputs[b];
  }
  ObjectId work_object(int b, Bytes bytes) {
    return step_.object(Tier::device, Purpose::workspace, bytes, step_.block(b).name + " work");
  }

  void embed(int b) {
    const ObjectId output = input_of(b + 1);
    Task& embed = step_.compute(Op::embed, b,
                                {reads(Role::weights, step_.weights[b]),
                                 reads(Role::batch, step_.batch), writes(Role::output, output),
                                 writes(Role::work, work_object(b, step_.block(b).forward_work))});
    embed.cost = step_.block(b).forward;
    embed.names_block = false;
  }

  // Calls run(piece) with each piece at hand.
  template <class Run>
  void for_pieces(int b, Run run) {
    const auto count = static_cast<int>(step_.block(b).pieces.size());
    for (step_.piece = 0; step_.piece < count; ++step_.piece) {
      run(step_.block(b).pieces[step_.piece]);
    }
    step_.piece = -1;
  }

  Task& compute_piece(Op op, int b, List<Use> uses, List<Use> weights, const Cost& cost,
                      Bytes work) {
    uses.insert(uses.end(), weights.begin(), weights.end());
    uses.push_back(writes(Role::scratch, step_.program.persistent.scratch));
    uses.push_back(writes(Role::work, work_object(b, work)));
    Task& task = step_.compute(op, b, std::move(uses));
    task.cost = cost;
    task.names_block = false;
    return task;
  }

  void embed_pieces(int b) {
    const ObjectId output = input_of(b + 1);
    for_pieces(b, [&](const BlockPiece& piece) {
      for (const auto& rule : rules_) rule->before_forward(step_, b);
      compute_piece(Op::embed, b, {reads(Role::batch, step_.batch), writes(Role::output, output)},
                    step_.reads_weights(Role::weights, b), piece.forward, piece.forward_work);
      for (const auto& rule : rules_) rule->after_forward(step_, b);
    });
  }

  void backward_pass() {
    step_.backward_start = step_.next_task();
    // Only the last backward pass meets the tide. An earlier one stays at the low end, clear of the
    // states that are still on their way out.
    const End end = step_.micro == step_.last_micro() ? End::high : End::low;
    step_.residual = step_.object(Tier::device, Purpose::activations, step_.work.input,
                                  "residual gradient", {.end = end});
    step_.tied_sum = -1;
    if (step_.work.tied_sum > 0 && !step_.is_cut(step_.table())) {
      for (const auto& rule : rules_) rule->before_tied_sum(step_);
    }
    for (const auto& rule : rules_) rule->before_backwards(step_);
    for (int b = step_.blocks() - 1; b >= 0; --b) {
      if (step_.is_cut(b)) {
        step_.block(b).kind == BlockKind::head ? head_pieces(b) : embed_pieces_backward(b);
        continue;
      }
      for (const auto& rule : rules_) rule->before_backward(step_, b);
      switch (step_.block(b).kind) {
        case BlockKind::embedding: embed_backward(b); break;
        case BlockKind::layer: layer_backward(b); break;
        case BlockKind::head: head(b); break;
      }
      step_.program.tasks.back().ends_pass = b == 0;
      for (const auto& rule : rules_) rule->after_backward(step_, b);
    }
  }

  void head(int b) {
    const bool tied = step_.work.tied_sum > 0;
    const int embedding = step_.table();
    if (tied) {
      for (const auto& rule : rules_) rule->before_forward(step_, embedding);
    }
    Task& run = step_.compute(
        Op::head, b,
        {reads(Role::weights, step_.weights[b]),
         reads(Role::head_weights, tied ? step_.weights[embedding] : -1),
         reads(Role::input, step_.inputs[b]), reads(Role::batch, step_.batch),
         writes(Role::residual, step_.residual), writes(Role::tied_sum, step_.tied_sum),
         writes(Role::gradient, step_.gradients[b]), writes(Role::report, step_.report),
         writes(Role::scratch, step_.program.persistent.scratch),
         writes(Role::work, work_object(b, step_.block(b).backward_work))});
    run.cost = step_.block(b).forward;
    run.cost += step_.block(b).backward;
    run.names_block = false;
    if (!tied) return;
    for (const auto& rule : rules_) rule->after_tied_sum(step_);
  }

  // The head over the pieces of the vocabulary, twice: what the statistics of all of them say is
  // needed for the gradients of any. The last norm is a piece of the head's block, or all of it.
  void head_pieces(int b) {
    const bool tied = step_.work.tied_sum > 0;
    const int table = step_.table(), pieces = step_.vocabulary_pieces();
    const Block& block = step_.block(b);
    const BlockPiece& norm = block.pieces.back();
    const ObjectId state =
        step_.object(Tier::device, Purpose::activations, block.pieces_state, "head state");
    const ObjectId gradient =
        step_.object(Tier::device, Purpose::activations, block.pieces_gradient, "head gradient");
    const auto with_norm = [&](auto run) {
      step_.piece = pieces;
      run();
      step_.piece = -1;
    };
    const auto with_pieces = [&](auto run) {
      for (step_.piece = 0; step_.piece < pieces; ++step_.piece) {
        run(block.pieces[step_.piece]);
      }
      step_.piece = -1;
    };
    with_norm([&] {
      for (const auto& rule : rules_) rule->before_forward(step_, b);
      compute_piece(Op::head_begin, b,
                    {reads(Role::input, step_.inputs[b]), writes(Role::head_state, state)},
                    step_.reads_weights(Role::weights, b), norm.forward, norm.forward_work);
    });
    with_pieces([&](const BlockPiece& piece) {
      for (const auto& rule : rules_) rule->before_forward(step_, table);
      compute_piece(Op::head_statistics, b,
                    {reads(Role::batch, step_.batch), writes(Role::head_state, state)},
                    step_.reads_weights(Role::head_weights, table), piece.forward,
                    piece.forward_work);
    });
    with_pieces([&](const BlockPiece& piece) {
      for (const auto& rule : rules_) {
        tied ? rule->before_forward(step_, table) : rule->before_backward(step_, b);
      }
      if (tied) {
        for (const auto& rule : rules_) rule->before_tied_sum(step_);
      }
      compute_piece(Op::head_gradients, b,
                    {reads(Role::batch, step_.batch), writes(Role::head_state, state),
                     writes(Role::head_gradient, gradient),
                     writes(Role::tied_sum, tied ? step_.tied_sum : -1),
                     writes(Role::gradient, tied ? -1 : step_.gradients[b])},
                    step_.reads_weights(Role::head_weights, table), piece.backward,
                    piece.backward_work);
      for (const auto& rule : rules_) {
        tied ? rule->after_tied_sum(step_) : rule->after_backward(step_, b);
      }
    });
    with_norm([&] {
      for (const auto& rule : rules_) rule->before_backward(step_, b);
      compute_piece(
          Op::head_end, b,
          {reads(Role::input, step_.inputs[b]), reads(Role::batch, step_.batch),
           writes(Role::head_state, state), reads(Role::head_gradient, gradient),
           writes(Role::residual, step_.residual), writes(Role::gradient, step_.gradients[b]),
           writes(Role::report, step_.report)},
          step_.reads_weights(Role::weights, b), norm.backward, norm.backward_work);
      for (const auto& rule : rules_) rule->after_backward(step_, b);
    });
  }

  void embed_pieces_backward(int b) {
    const auto last = static_cast<int>(step_.block(b).pieces.size()) - 1;
    for_pieces(b, [&](const BlockPiece& piece) {
      for (const auto& rule : rules_) rule->before_backward(step_, b);
      compute_piece(
          Op::embed_backward, b,
          {reads(Role::batch, step_.batch), reads(Role::residual, step_.residual),
           writes(Role::tied_sum, step_.tied_sum), writes(Role::gradient, step_.gradients[b])},
          {}, piece.backward, piece.backward_work)
          .ends_pass = step_.piece == last;
      for (const auto& rule : rules_) rule->after_backward(step_, b);
    });
  }

  void layer_backward(int b) {
    const Block& block = step_.block(b);
    const Bytes work = step_.recomputes(b) ? block.lean_backward_work
                       : step_.keeps(b)    ? block.kept_backward_work
                                           : block.backward_work;
    Task& back = step_.compute(
        Op::backward, b,
        {reads(Role::weights, step_.weights[b]), reads(Role::input, step_.inputs[b]),
         reads(Role::tables, step_.program.persistent.tables), writes(Role::saved, step_.saved[b]),
         writes(Role::saved_mlp, step_.recomputes(b) ? -1 : step_.saved_mlp[b]),
         writes(Role::cheap_saved, step_.keeps(b) ? step_.cheap_saved[b] : -1),
         writes(Role::residual, step_.residual), writes(Role::gradient, step_.gradients[b]),
         writes(Role::scratch, step_.program.persistent.scratch),
         writes(Role::work, work_object(b, work))});
    back.cost = block.backward;
    if (step_.recomputes(b)) back.cost += block.mlp_again;
    if (step_.keeps(b)) back.cost -= block.cheap_recompute;
  }

  void embed_backward(int b) {
    Task& back = step_.compute(
        Op::embed_backward, b,
        {reads(Role::batch, step_.batch), reads(Role::residual, step_.residual),
         writes(Role::tied_sum, step_.tied_sum), writes(Role::gradient, step_.gradients[b]),
         writes(Role::scratch, step_.program.persistent.scratch),
         writes(Role::work, work_object(b, step_.block(b).backward_work))});
    back.cost = step_.block(b).backward;
    back.names_block = false;
  }

  Step& step_;
  List<std::unique_ptr<Rule>> rules_;
};

}  // namespace

void run_layer(Step& step, Op op, int b, ObjectId output) {
  const Block& block = step.block(b);
  step.saved[b] =
      step.object(Tier::device, Purpose::activations, block.saved, block.name + " saved");
  if (!step.recomputes(b)) {
    step.saved_mlp[b] =
        step.object(Tier::device, Purpose::activations, block.saved_mlp, block.name + " saved MLP");
  }
  if (step.keeps(b)) {
    step.cheap_saved[b] =
        step.object(Tier::device, Purpose::activations, block.cheap_saved, block.name + " kept");
  }
  const bool again = op == Op::recompute;
  const ObjectId work = step.object(Tier::device, Purpose::workspace,
                                    again                ? block.recompute_work
                                    : step.recomputes(b) ? block.lean_forward_work
                                    : step.keeps(b)      ? block.kept_forward_work
                                                         : block.forward_work,
                                    block.name + " work");
  Task& run = step.compute(
      op, b,
      {reads(Role::weights, step.weights[b]), reads(Role::input, step.inputs[b]),
       reads(Role::tables, step.program.persistent.tables), writes(Role::output, output),
       writes(Role::saved, step.saved[b]),
       writes(Role::saved_mlp, step.recomputes(b) ? -1 : step.saved_mlp[b]),
       writes(Role::cheap_saved, step.keeps(b) ? step.cheap_saved[b] : -1),
       writes(Role::scratch, step.program.persistent.scratch), writes(Role::work, work)});
  run.cost = again ? block.recompute : block.forward;
}

Program build_training(const Workload& workload, const Choices& choices, const Tide& tide) {
  Step step(workload, choices, tide);
  Passes(step).run();
  PerTier<Bytes> budget;
  budget[Tier::device] = tide.budget;
  budget[Tier::host] = tide.host_budget;
  place_fetches(step.program, std::move(step.fetches), budget,
                tide.early ? Arrival::first_first : Arrival::last_first);
  route(step.program, static_cast<int>(choices.depth));
  step.program.find_lifetimes();
  budget[Tier::host] = tide.leaving_budget;
  hold_what_leaves(step.program, budget);
  return std::move(step.program);
}

}  // namespace ebb::plan
