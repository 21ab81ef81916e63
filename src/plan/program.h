// A program: all tasks of a step in one issue order, with the objects they use. The simulator and
// the executor both run it. Every dependency points backward in the issue order, or to the step
// before, so it cannot deadlock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/choices.h"
#include "plan/words.h"
#include "plan/workload.h"

namespace ebb::plan {

using ObjectId = std::int32_t;
using TaskId = std::int32_t;  // the position in the issue order

// From which end of the arena an object is placed. What the forward pass piles up and the backward
// pass takes down grows from the low end; what grows during the backward pass (gradients, states
// that ride in) comes from the high end and meets it: the tide.
enum class End : std::uint8_t { low, high };

struct Object {
  Tier tier = Tier::device;
  Purpose purpose = Purpose::workspace;
  End end = End::low;
  bool persistent = false;  // keeps its content from step to step
  Bytes bytes = 0;          // a multiple of kAlignment
  int cells = 1;            // parts that are written and read on their own
  std::string name;
  TaskId first = -1;  // first and last task of a step that use it
  TaskId last = -1;
};

// What a task does with an object. A task has at most one object of a role.
enum class Role : std::uint8_t {
  weights,       // of the task's block
  head_weights,  // the tied embedding, in the head
  input,         // a block's input
  output,        // the next block's input
  saved,
  kept,  // saved too, although it is cheap to make again
  work,
  scratch,
  tables,
  batch,     // token ids and targets on the device
  residual,  // the gradient of the residual stream
  gradient,  // of the task's block, on the device
  sum,       // of gradients over micro-batches
  tied_sum,
  state,   // of the task's chunk, on the device
  report,  // losses and sums of squares, on the device
  scale,   // what the norm decided, on the device
  host_batch,
  host_input,
  host_state,
  host_weights,
  host_gradient,
  host_sum,
  host_report,   // report, as it came down
  host_squares,  // sums of squares made on the host
  host_scale,
};

enum class Op : std::uint8_t {
  load_batch,  // token ids and targets to the device
  embed,
  forward,
  send_input,  // a block's input to host memory
  head,        // final norm, logits in slices, loss and their gradients
  fetch_input,
  recompute,  // a block's forward again, for what the backward needs
  backward,
  embed_backward,
  add_gradient,     // a micro-batch's gradient into the sum, on the device
  finish_gradient,  // the step's gradient and its sums of squares, on the device
  send_gradient,
  host_add_gradient,
  host_finish_gradient,
  gather_report,  // losses and sums of squares to the host
  forget_scale,   // a step that fails before its norm must not be applied with the last one's scale
  norm,           // the global norm and the clip factor
  spread_scale,   // the clip factor to the device
  fetch_state,
  update,
  send_state,
  host_update,
  send_weight,  // weights that the CPU updated, to the device
  // generation
  load_tokens,
  decode,  // a block's forward with the key-value cache
  logits,
};

std::string_view name_of(Op);

enum class Access : std::uint8_t { read, write };  // write covers read-and-write

struct Use {
  Role role{};
  ObjectId object = -1;
  Access access = Access::read;
  int cell = -1;  // -1: all of it
};

// The task must not start before `task` of this step, or of the step before, has ended.
struct Wait {
  TaskId task = -1;
  bool previous_step = false;
  friend bool operator==(const Wait&, const Wait&) = default;
};

struct Task {
  Op op{};
  Lane lane = Lane::compute;
  int block = -1;
  int micro = -1;
  int chunk = -1;
  Cost cost{};
  Bytes moved = 0;  // over the link (up and down lanes) or through the CPU (host lane)
  std::vector<Use> uses{};
  std::vector<Wait> waits{};  // on tasks of other lanes; its own lane's order goes without saying

  const Use* find(Role role) const {
    for (const Use& use : uses) {
      if (use.role == role) return &use;
    }
    return nullptr;
  }
};

// Where things live from step to step, for whoever loads, saves or feeds them between steps.
struct Homes {
  std::vector<ObjectId> weights;       // by block, on the device
  std::vector<ObjectId> states;        // by chunk, on the device or the host
  std::vector<ObjectId> host_weights;  // by chunk; -1 where the CPU keeps no copy
  std::vector<ObjectId> host_batches;  // by micro-batch
  std::vector<ObjectId> caches;        // by transformer block, for generation
  ObjectId scratch = -1;
  ObjectId tables = -1;
  ObjectId host_report = -1;
};

struct Program {
  std::vector<Object> objects;
  std::vector<Task> tasks;
  std::vector<Chunk> chunks;
  Homes homes;

  // Sets the first and last task of every object.
  void find_lifetimes();
  // Whether an object takes room at the time of a task: persistent ones always do.
  bool alive(const Object& object, TaskId task) const {
    return object.persistent || (object.first <= task && task <= object.last);
  }
};

}  // namespace ebb::plan
