// A program: all tasks of a step in one issue order, with the objects they use. The simulator and
// the executor both run it. Every dependency points backward in the issue order, or to the step
// before, so it cannot deadlock.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/list.h"
#include "plan/choices.h"
#include "plan/topology.h"
#include "plan/types.h"
#include "plan/workload.h"

namespace ebb::plan {

using ObjectId = std::int32_t;
using TaskId = std::int32_t;  // the position in the issue order

// From which end of the arena an object is placed. What the forward pass piles up and the backward
// pass takes down grows from the low end; what grows during the backward pass (gradients, states
// that ride in) comes from the high end and meets it: the tide.
enum class End : std::uint8_t { low, high };

// Objects that follow each other through the same work: gradients on their way down, inputs on
// their way up, of one pass. `depth` of them may be alive at once, and addresses go round among
// them: two at least, or the work and the transfers take turns.
struct ObjectStream {
  std::string name;
  int depth = 2;
};

struct Object {
  Tier tier = Tier::device;
  Purpose purpose = Purpose::workspace;
  End end = End::low;
  bool persistent = false;  // keeps its content from step to step
  Bytes bytes = 0;          // a multiple of the alignment
  Bytes alignment = kAlignment;
  int stream = -1;  // of the program's streams
  std::string name{};
  TaskId first = -1;  // first and last task of a step that use it
  TaskId last = -1;
  // Its bytes are its own until this task has been issued: the last one, or later where its stream
  // is deep.
  TaskId held = -1;
};

// What an object is to a task, never where it is. A computation has at most one object of a role,
// of which it may use several ranges; one that crosses the network may have several.
enum class Role : std::uint8_t {
  weights,       // of the task's block or chunk
  head_weights,  // the tied embedding, or a piece of the table, in the head
  input,         // a block's input
  output,        // the next block's input
  saved,
  saved_mlp,    // by a block that is not recomputed
  cheap_saved,  // saved too, although it is cheap to make again
  work,
  scratch,
  tables,
  batch,     // token ids and targets
  residual,  // the gradient of the residual stream
  gradient,  // of the task's block or chunk
  earlier,   // the gradient of the micro-batch before, where no sum exists yet
  sum,       // of gradients over micro-batches
  sum_rest,  // its lower plane, where it has two (kernels/optimizer_ops.h)
  tied_sum,
  head_state,     // what the head keeps from piece to piece
  head_gradient,  // what its pieces add up to
  state,          // of the task's chunk
  report,         // losses and sums of squares
  squares,        // sums of squares that were made where the norm is
  received,       // gradients of other ranks' groups
  finished,       // the gradient of the step, of the task's chunk
  scale,          // what the norm decided
  cache,          // keys and values
  mlp_weights,    // of a layer whose halves are placed apart, and computed by one task
  middle,         // the residual stream between them
  logits,
  source,  // of a transfer
  destination,
};

// What a computation does. Transfers need no op: their objects say it all.
enum class Op : std::uint8_t {
  embed,
  forward,
  head,  // final norm, logits in slices, loss and their gradients
  // The head by pieces of the vocabulary:
  head_begin,       // final norm
  head_statistics,  // of a piece's logits
  head_gradients,   // of a piece
  head_end,         // the loss, and the final norm's gradient
  recompute,        // a block's forward again, for what the backward needs
  backward,
  embed_backward,
  add_gradient,     // a micro-batch's gradient into the sum
  finish_gradient,  // the step's gradient and its sums of squares
  reset_scale,      // a step that fails before its norm must not be applied with the last one's
  norm,             // the global norm and the clip factor
  update,
  // Of several ranks, or of groups of micro-batches:
  add_to_group,        // a micro-batch's gradient into the sum of its group
  exchange_gradients,  // of a round's groups, to the owners of chunks
  sum_groups,          // of a round; in the last one the step's gradient and its sums of squares
  gather_report,       // losses and sums of squares of all ranks
  gather_weights,      // of a block, from the owners of its chunks
  loss,                // final norm, logits in slices and their loss alone
  // Of a batch, for the caller: before that of the next one takes its place.
  note_loss,
  // generation
  decode,  // a layer's forward with the key-value cache
  attend,  // its attention alone
  mlp,     // and its MLP
  logits,
  take_tokens,    // puts the ids of a run's tokens where it reads them
  choose_tokens,  // the next ones, from logits
  transfer,
};

std::string_view name_of(Op);

enum class Access : std::uint8_t { read, write };  // write covers read-and-write

struct Use {
  Role role{};
  ObjectId object = -1;
  Access access = Access::read;
  Range range{};
};

// The task must not start before `task` of this step, or of the step before, has ended.
struct Wait {
  TaskId task = -1;
  bool previous_step = false;
  friend bool operator==(const Wait&, const Wait&) = default;
};

// What a task draws from what lanes share (profile.h).
enum class Draw : std::uint8_t { compute, up, down, update, sum, read, write, block, nothing };
inline constexpr std::array kDraws = {Draw::compute, Draw::up,    Draw::down,
                                      Draw::update,  Draw::sum,   Draw::read,
                                      Draw::write,   Draw::block, Draw::nothing};
std::string_view name_of(Draw);

struct Task {
  // A transfer copies the range of its source to that of its destination, which are as long.
  enum class Kind : std::uint8_t { computation, transfer };
  Kind kind = Kind::computation;
  Op op{};
  Lane lane = Lane::compute;
  Draw draw = Draw::compute;
  int block = -1;
  int micro = -1;
  int chunk = -1;
  int piece = -1;  // of the block, which runs piece by piece; -1: all of it
  // What an argument of the run says of how many of the planned bytes are moved; -1: all of them.
  int argument = -1;
  // What arguments say of where in its ranges they begin; -1: at their start.
  int source_offset = -1;
  int destination_offset = -1;
  Bytes usual = -1;  // moved in the run that a prediction is for, where an argument says how many
  bool ends_pass = false;   // the last task of a micro-batch's backward pass
  bool names_block = true;  // for people: there is one such task for each block
  Cost cost{};
  Bytes moved = 0;  // by a transfer, or through the CPU's memory
  List<Use> uses{};
  List<Wait> waits{};  // on tasks of other lanes; its own lane's order goes without saying

  bool is_transfer() const { return kind == Kind::transfer; }
  const Use* find(Role role) const {
    for (const Use& use : uses) {
      if (use.role == role) return &use;
    }
    return nullptr;
  }
};

// Bytes of an object.
struct Part {
  ObjectId object = -1;
  Range range{};
};

// Objects that live from step to step, for the code that loads, saves or feeds them between steps.
struct PersistentObjects {
  List<ObjectId> weights;        // by block; -1 where each chunk has its own
  List<ObjectId> chunk_weights;  // by chunk; -1 where they are with the block's
  List<ObjectId> states;         // by chunk, on its home
  List<ObjectId> weight_copies;  // by chunk; -1 where the CPU keeps none
  List<ObjectId> batches;        // by micro-batch, in host memory
  List<ObjectId> caches;         // by block, for generation; -1 for those without
  ObjectId scratch = -1;
  ObjectId tables = -1;
  ObjectId host_scratch = -1;  // where the CPU computes blocks
  ObjectId host_tables = -1;
  ObjectId report = -1;  // in host memory: losses and sums of squares, or logits
};

struct Program {
  std::shared_ptr<const Topology> topology = device_and_host();
  List<Object> objects{};
  List<ObjectStream> streams{};
  List<Task> tasks{};
  List<Chunk> chunks{};
  PersistentObjects persistent{};

  const Object& operator[](ObjectId id) const { return objects[id]; }
  // The bytes of an object that a task uses.
  Range range_of(const Use& use) const {
    const Bytes all = (*this)[use.object].bytes - use.range.first;
    return {use.range.first, use.range.bytes < 0 ? all : use.range.bytes};
  }

  // Sets the first and last task of every object, and until when it is held.
  void find_lifetimes();
  // Whether an object takes room at the time of a task: persistent ones always do.
  bool alive(const Object& object, TaskId task) const {
    return object.persistent || (object.first <= task && task <= object.held);
  }
};

}  // namespace ebb::plan
