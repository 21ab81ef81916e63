// A step while it is built: the program so far, and what rules leave for each other to find. The
// passes (training_program.cpp) add the model's own tasks; each rule adds its objects and tasks
// around them and knows none of the others.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "base/list.h"
#include "plan/choices.h"
#include "plan/program.h"
#include "plan/scheduler.h"
#include "plan/training_program.h"
#include "plan/workload.h"

namespace ebb::plan {

class Step {
 public:
  Step(const Workload& work, const Choices& choices, const Tide& tide);

  const Workload& work;
  const Choices& choices;
  const Tide& tide;
  Program program;
  List<Fetch> fetches;
  List<List<int>> chunks_of;  // by block

  // Where the passes are.
  int micro = 0;
  int piece = -1;              // of the block at hand, where it runs piece by piece; -1: all of it
  TaskId backward_start = 0;   // of this micro-batch
  TaskId last_pass_start = 0;  // of the last micro-batch's forward

  // Objects by what they hold, at this point of the issue order; -1 for nothing.
  // By block, where the passes read them: all of it, or the piece at hand where it is not here.
  List<ObjectId> weights;
  List<ObjectId> inputs, saved, saved_mlp, cheap_saved;  // by block, of this micro-batch
  List<ObjectId> gradients;  // by block or its piece at hand, of this micro-batch
  List<Part> finished;       // by chunk: its gradient of the step
  List<TaskId> finished_by;  // by chunk: not before this task is it there
  ObjectId batch = -1, residual = -1, tied_sum = -1, report = -1, squares = -1;
  PerTier<ObjectId> scale;  // what the norm decided, where it is needed

  int blocks() const { return static_cast<int>(work.blocks.size()); }
  int layers() const { return layers_; }
  // Which of the layers a block is, from 0 on; -1 for blocks of another kind.
  int layer_of(int b) const { return layer_of_[b]; }
  int last_micro() const { return static_cast<int>(work.micro_batches) - 1; }
  const Block& block(int b) const { return work.blocks[b]; }
  const Chunk& chunk(int c) const { return program.chunks[c]; }
  // Whether a block runs piece by piece, and what of its parameters is at hand.
  bool is_cut(int b) const { return plan::is_cut(block(b), choices); }
  TensorRange at_hand(int b) const;
  std::string name_of(int b) const;  // of what is at hand
  // The chunks of what is at hand.
  List<int> chunks_at_hand(int b) const;
  // The object that the tasks of a block read as its weights.
  List<Use> reads_weights(Role role, int b) const;
  Tier tier_of(const Part& part) const { return program[part.object].tier; }
  int chunks() const { return static_cast<int>(program.chunks.size()); }
  // Whether this rank has the chunk's state.
  bool owns(int c) const { return chunk(c).owner == work.ranks.rank; }
  // The block whose table the head computes with, and how many pieces it has.
  int table() const;
  int vocabulary_pieces() const;
  // Whether a layer's attention runs forward twice, and its MLP as far as its backward needs it.
  bool recomputes(int b) const {
    return layer_of(b) >= 0 && layer_of(b) < choices.recompute_blocks;
  }
  // A block that runs twice keeps nothing.
  bool keeps(int b) const {
    return !recomputes(b) && layer_of(b) >= layers() - choices.cheap_saved_blocks;
  }

  struct Placing {
    End end = End::low;
    int stream = -1;
  };
  ObjectId object(Tier tier, Purpose purpose, Bytes bytes, std::string name);
  ObjectId object(Tier tier, Purpose purpose, Bytes bytes, std::string name, Placing placing);
  ObjectId persistent(Tier tier, Purpose purpose, Bytes bytes, std::string name);
  int stream(std::string name);

  // Objects of zero bytes, and those that are not there, are left out of a task.
  Task& compute(Op op, int block, List<Use> uses);
  Task& on_cpu(Op op, Draw draw, List<Use> uses);
  Task& on_network(Op op, int block, List<Use> uses);
  // At this point of the issue order.
  Task& transfer(Part from, Part to, Traffic traffic = Traffic::bulk);
  // Adds a fetch that is in time for the first task that uses `to`, as its stream's depth or the
  // room allows.
  Fetch& fetch(Part from, Part to);
  TaskId next_task() const { return static_cast<TaskId>(program.tasks.size()); }

 private:
  Task& add(Task task);

  int layers_ = 0;
  List<int> layer_of_;
};

inline Use reads(Role role, ObjectId id, Range range = {}) {
  return {role, id, Access::read, range};
}
inline Use writes(Role role, ObjectId id, Range range = {}) {
  return {role, id, Access::write, range};
}
inline Use reads(Role role, const Part& part) { return reads(role, part.object, part.range); }
inline Use writes(Role role, const Part& part) { return writes(role, part.object, part.range); }

// What is added around the passes. Calls come in the order of the passes, and of the rules where
// they are at the same place. A block that runs piece by piece has calls for each (Step::piece),
// and one with before_forward whenever the passes are about to read its weights.
class Rule {
 public:
  virtual ~Rule() = default;
  // One that has nothing to add to a step of such work is left out.
  virtual bool applies(const Workload&) const { return true; }
  virtual void start(Step&) {}  // before the first pass
  virtual void before_forward(Step&, int /*block*/) {}
  virtual void after_forward(Step&, int /*block*/) {}
  virtual void before_backwards(Step&) {}  // of a micro-batch
  virtual void before_backward(Step&, int /*block*/) {}
  virtual void after_backward(Step&, int /*block*/) {}
  // Around what makes the fp32 gradient of a tied embedding, or of a piece of it, in the head.
  virtual void before_tied_sum(Step&) {}
  virtual void after_tied_sum(Step&) {}
  virtual void finish(Step&) {}  // behind the last pass
};

// The rules of a training step, in their order. The list is one file (list.cpp): a rule is a file
// of its own and a line there.
std::span<std::unique_ptr<Rule> (*const)()> training_rules();

// A layer's forward, the first time or again.
void run_layer(Step&, Op op, int block, ObjectId output);

}  // namespace ebb::plan
