// A step while it is built: the program so far, and what rules leave for each other to find. The
// passes (training_program.cpp) add the model's own tasks; each rule adds its objects and tasks
// around them and knows none of the others.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

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
  std::vector<Fetch> fetches;
  std::vector<std::vector<int>> chunks_of;  // by block

  // Where the passes are.
  int micro = 0;
  TaskId backward_start = 0;   // of this micro-batch
  TaskId last_pass_start = 0;  // of the last micro-batch's forward

  // What lies where at this point of the issue order; -1 for nothing.
  std::vector<ObjectId> weights;              // by block, where the passes read them
  std::vector<ObjectId> inputs, saved, kept;  // by block, of this micro-batch
  std::vector<ObjectId> gradients;            // by block, of this micro-batch
  std::vector<Part> finished;                 // by chunk: its gradient of the step
  std::vector<TaskId> finished_by;            // by chunk: not before this task is it there
  ObjectId batch = -1, residual = -1, tied_sum = -1, report = -1, squares = -1;
  PerTier<ObjectId> scale;  // what the norm decided, where it is needed

  int blocks() const { return static_cast<int>(work.blocks.size()); }
  int layers() const { return layers_; }
  // Which of the layers a block is, from 0 on; -1 for blocks of another kind.
  int layer_of(int b) const { return layer_of_[at(b)]; }
  int last_micro() const { return static_cast<int>(work.micro_batches) - 1; }
  const Block& block(int b) const { return work.blocks[at(b)]; }
  const Chunk& chunk(int c) const { return program.chunks[at(c)]; }
  Tier tier_of(const Part& part) const { return program[part.object].tier; }
  int chunks() const { return static_cast<int>(program.chunks.size()); }
  // Of losses of the micro-batches and sums of squares.
  Bytes report_bytes() const { return report_bytes_; }
  // A block that runs twice keeps nothing.
  bool keeps(int b) const {
    return layer_of(b) >= choices.recompute_blocks && layer_of(b) >= layers() - choices.kept_blocks;
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
  Task& compute(Op op, int block, std::vector<Use> uses);
  Task& on_cpu(Op op, Draw draw, std::vector<Use> uses);
  // At this point of the issue order.
  Task& transfer(Part from, Part to, Traffic traffic = Traffic::bulk);
  // In time for the first task that uses `to`, as its stream's depth or the room allows.
  Fetch& fetch(Part from, Part to);
  TaskId next_task() const { return static_cast<TaskId>(program.tasks.size()); }

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }

 private:
  Task& add(Task task);

  Bytes report_bytes_ = 0;
  int layers_ = 0;
  std::vector<int> layer_of_;
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
// they are at the same place.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual void start(Step&) {}  // before the first pass
  virtual void before_forward(Step&, int /*block*/) {}
  virtual void after_forward(Step&, int /*block*/) {}
  virtual void before_backwards(Step&) {}  // of a micro-batch
  virtual void before_backward(Step&, int /*block*/) {}
  virtual void after_backward(Step&, int /*block*/) {}
  virtual void finish(Step&) {}  // behind the last pass
};

// The rules of a training step, in their order. The list is one file (list.cpp): a rule is a file
// of its own and a line there.
std::span<std::unique_ptr<Rule> (*const)()> training_rules();

// A layer's forward, the first time or again.
void run_layer(Step&, Op op, int block, ObjectId output);

}  // namespace ebb::plan
