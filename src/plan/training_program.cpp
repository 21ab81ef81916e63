#include "plan/training_program.h"

#include <fmt/format.h>

#include "plan/route.h"
#include "plan/rules/step.h"
#include "plan/scheduler.h"

namespace ebb::plan {
namespace {

class Passes {
 public:
  explicit Passes(Step& step) : step_(step) {
    for (const auto make : training_rules()) rules_.push_back(make());
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
    for (int m = 0; m <= step_.last_micro(); ++m) {
      objects.batches.push_back(step_.persistent(Tier::host, Purpose::batch, step_.work.batch,
                                                 fmt::format("batch {}", m)));
    }
    for (const auto& rule : rules_) rule->start(step_);
  }

  void forward_pass() {
    step_.batch = step_.object(Tier::device, Purpose::batch, step_.work.batch,
                               fmt::format("batch {}", step_.micro));
    Task& load = step_.transfer(
        {step_.program.persistent.batches[Step::at(step_.micro)], {0, step_.work.batch}},
        {step_.batch}, Traffic::express);
    load.micro = step_.micro;
    for (int b = 0; b < step_.blocks(); ++b) {
      if (step_.block(b).kind == BlockKind::head) continue;  // runs with its backward
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
    step_.inputs[Step::at(b)] = step_.object(Tier::device, Purpose::activations, step_.work.input,
                                             fmt::format("input {}", b - 1));
    return step_.inputs[Step::at(b)];
  }
  ObjectId work_object(int b, Bytes bytes) {
    return step_.object(Tier::device, Purpose::workspace, bytes, step_.block(b).name + " work");
  }

  void embed(int b) {
    const ObjectId output = input_of(b + 1);
    Task& embed = step_.compute(Op::embed, b,
                                {reads(Role::weights, step_.weights[Step::at(b)]),
                                 reads(Role::batch, step_.batch), writes(Role::output, output),
                                 writes(Role::work, work_object(b, step_.block(b).forward_work))});
    embed.cost = step_.block(b).forward;
    embed.names_block = false;
  }

  void backward_pass() {
    step_.backward_start = step_.next_task();
    // Only the last backward pass meets the tide. An earlier one stays at the low end, clear of the
    // states that are still on their way out.
    const End end = step_.micro == step_.last_micro() ? End::high : End::low;
    step_.residual = step_.object(Tier::device, Purpose::activations, step_.work.input,
                                  "residual gradient", {.end = end});
    step_.tied_sum = step_.object(Tier::device, Purpose::gradients, step_.work.tied_sum, "tied sum",
                                  {.end = end});
    for (const auto& rule : rules_) rule->before_backwards(step_);
    for (int b = step_.blocks() - 1; b >= 0; --b) {
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
    const int embedding = step_.work.all_of(BlockKind::embedding).front();
    Task& run = step_.compute(
        Op::head, b,
        {reads(Role::weights, step_.weights[Step::at(b)]),
         reads(Role::head_weights, tied ? step_.weights[Step::at(embedding)] : -1),
         reads(Role::input, step_.inputs[Step::at(b)]), reads(Role::batch, step_.batch),
         writes(Role::residual, step_.residual), writes(Role::tied_sum, step_.tied_sum),
         writes(Role::gradient, step_.gradients[Step::at(b)]), writes(Role::report, step_.report),
         writes(Role::scratch, step_.program.persistent.scratch),
         writes(Role::work, work_object(b, step_.block(b).backward_work))});
    run.cost = step_.block(b).forward;
    run.cost += step_.block(b).backward;
    run.names_block = false;
  }

  void layer_backward(int b) {
    Task& back = step_.compute(
        Op::backward, b,
        {reads(Role::weights, step_.weights[Step::at(b)]),
         reads(Role::input, step_.inputs[Step::at(b)]),
         reads(Role::tables, step_.program.persistent.tables),
         writes(Role::saved, step_.saved[Step::at(b)]),
         writes(Role::kept, step_.keeps(b) ? step_.kept[Step::at(b)] : -1),
         writes(Role::residual, step_.residual),
         writes(Role::gradient, step_.gradients[Step::at(b)]),
         writes(Role::scratch, step_.program.persistent.scratch),
         writes(Role::work, work_object(b, step_.keeps(b) ? step_.block(b).kept_backward_work
                                                          : step_.block(b).backward_work))});
    back.cost = step_.block(b).backward;
    if (step_.keeps(b)) back.cost -= step_.block(b).made_again;
  }

  void embed_backward(int b) {
    Task& back =
        step_.compute(Op::embed_backward, b,
                      {reads(Role::batch, step_.batch), reads(Role::residual, step_.residual),
                       writes(Role::tied_sum, step_.tied_sum),
                       writes(Role::gradient, step_.gradients[Step::at(b)]),
                       writes(Role::scratch, step_.program.persistent.scratch),
                       writes(Role::work, work_object(b, step_.block(b).backward_work))});
    back.cost = step_.block(b).backward;
    back.names_block = false;
  }

  Step& step_;
  std::vector<std::unique_ptr<Rule>> rules_;
};

}  // namespace

void run_layer(Step& step, Op op, int b, ObjectId output) {
  const Block& block = step.block(b);
  step.saved[Step::at(b)] =
      step.object(Tier::device, Purpose::activations, block.saved, block.name + " saved");
  if (step.keeps(b)) {
    step.kept[Step::at(b)] =
        step.object(Tier::device, Purpose::activations, block.kept, block.name + " kept");
  }
  const bool again = op == Op::recompute;
  const ObjectId work = step.object(Tier::device, Purpose::workspace,
                                    again           ? block.recompute_work
                                    : step.keeps(b) ? block.kept_forward_work
                                                    : block.forward_work,
                                    block.name + " work");
  Task& run = step.compute(
      op, b,
      {reads(Role::weights, step.weights[Step::at(b)]),
       reads(Role::input, step.inputs[Step::at(b)]),
       reads(Role::tables, step.program.persistent.tables), writes(Role::output, output),
       writes(Role::saved, step.saved[Step::at(b)]),
       writes(Role::kept, step.keeps(b) ? step.kept[Step::at(b)] : -1),
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
