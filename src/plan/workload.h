// What a training step or a pass of generation has to do, in numbers: the planner's whole knowledge
// of a model, a batch and an optimizer. The engine fills it from the code that will run.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>

#include "base/chunking.h"
#include "base/list.h"
#include "base/planes.h"
#include "plan/ranks.h"
#include "plan/topology.h"
#include "plan/types.h"

namespace ebb::plan {

// A product whose shortest side is below this is narrow: it reaches less of the device's speed.
inline constexpr std::int64_t kNarrow = 512;

// Work of one task on the compute lane, by what bounds it: every part of a task is in one of these
// only. A profile has a speed for each.
struct Cost {
  double flops = 0;  // of wide matrix products
  double narrow_flops = 0;
  double attention_flops = 0;
  double attention_backward_flops = 0;
  double pass_bytes = 0;  // memory traffic of what else a model does: norms, activations, the loss
  double bytes = 0;       // memory traffic of updates and of sums of gradients
  double calls = 0;       // of ops
  // Memory traffic of products and attention, counted where their tokens are few: what is done with
  // the bytes is counted above, and the longer of the two is what they take.
  double read_bytes = 0;
  Cost& operator+=(const Cost& other);
  Cost& operator-=(const Cost& other);
};

using ebb::TensorRange;  // within a block

// Planes of the same elements as one piece of memory (base/planes.h).
class Planes {
 public:
  Planes() = default;
  Planes(std::initializer_list<Grain> planes) : planes_(planes) {}
  void add(Grain plane) { planes_.push_back(plane); }

  Bytes bytes(std::int64_t count) const;
  // Where elements from `first` on lie in such a piece for `of` of them: a range of each plane.
  // They start with a grain of each.
  List<Range> ranges(std::int64_t of, std::int64_t first, std::int64_t count) const;

 private:
  List<Grain> planes_;
};

// What a block does in a pass: the programs go by it.
enum class BlockKind : std::uint8_t {
  embedding,  // tokens become the first input
  layer,      // input becomes output, once for each micro-batch
  head,       // the last input becomes a loss, or logits
};

// Generation places a layer as two blocks, one behind the other: the attention with its cache, and
// the MLP. Training has it whole.
enum class LayerHalf : std::uint8_t { both, attention, mlp };

// A run of a block's parameters that passes can use without the rest of the block, and what a pass
// costs with it. It begins where a chunk may.
struct BlockPiece {
  std::int64_t first = 0;
  std::int64_t count = 0;  // 0: its parameters are the embedding's, as those of a tied head
  Cost forward{};
  Cost backward{};
  Bytes forward_work = 0;
  Bytes backward_work = 0;
};

// A run of layers whose parameters live together: the embedding, one transformer block, the head.
struct Block {
  BlockKind kind = BlockKind::layer;
  LayerHalf half = LayerHalf::both;
  std::string name;
  std::int64_t parameters = 0;  // the length of its planes, padding included
  Planes weights = {{2}};       // as the passes read them
  Planes states{};              // of the optimizer
  List<TensorRange> tensors{};
  Cost forward{};
  Cost recompute{};  // for `saved` alone
  Cost backward{};
  Cost cheap_recompute{};  // of the backward: what it does where nothing is kept
  Cost mlp_again{};        // what it does besides where `saved_mlp` is not there
  Cost loss{};             // of the head: without gradients
  Bytes loss_work = 0;
  Bytes saved = 0;        // from the forward for the backward, besides the block's input
  Bytes saved_mlp = 0;    // likewise; of a block that is recomputed, its backward makes it again
  Bytes cheap_saved = 0;  // what is cheap to make again, where it is saved as well
  Bytes forward_work = 0;
  Bytes recompute_work = 0;
  Bytes backward_work = 0;
  Bytes kept_forward_work = 0;  // where what is cheap is saved as well
  Bytes kept_backward_work = 0;
  Bytes lean_forward_work = 0;  // where nothing of the MLP is saved
  Bytes lean_backward_work = 0;
  // One behind the other, all of the block's parameters; empty where it is used whole. Of the
  // embedding and the head these are pieces of the vocabulary, the same of both, and behind them
  // what else the block has: learned positions, the last norm. The head goes over its pieces twice,
  // forward for statistics and backward for gradients; the last one begins and ends it.
  List<BlockPiece> pieces{};
  Bytes pieces_state = 0;     // of the head: what it keeps from its first piece to its last
  Bytes pieces_gradient = 0;  // and from the first gradient on
  Cost pieces_loss{};
  // Of generation: keys and values of all positions of all sequences; of one sequence those before
  // the tokens of a run, and those of these tokens.
  Bytes cache = 0;
  Bytes cached = 0;
  Bytes cache_added = 0;
};

// Memory of a tier beside the program's objects: what libraries take by themselves, data prepared
// ahead, a tokenizer. It is held for as long as the run is.
struct Extra {
  Tier tier = Tier::host;
  std::string name;
  Bytes bytes = 0;
};

struct Workload {
  std::shared_ptr<const Topology> topology = device_and_host();
  List<Block> blocks{};            // in the order of the forward pass
  std::int64_t micro_batches = 1;  // of this rank
  Ranks ranks{};
  std::int64_t tokens = 0;   // of one micro-batch
  Bytes batch = 0;           // token ids and targets of one micro-batch
  Bytes input = 0;           // one block's input for one micro-batch
  Bytes tied_sum = 0;        // fp32 gradient of a tied embedding, from the head to the embedding
  Bytes scratch = 0;         // workspace of libraries and kernels
  Bytes host_scratch = 0;    // likewise, of the CPU where it computes blocks
  Bytes host_libraries = 0;  // what its libraries take by themselves then
  Bytes tables = 0;          // constants such as the rotary table
  // Of generation:
  Bytes logits = 0;                // what the head makes of a sequence's last token
  std::int64_t sequences = 1;      // that caches are for: a run takes one of them, or all, further
  bool tied = false;               // the head's table is the embedding's
  Bytes gradient_bytes = 2;        // of one parameter
  std::int64_t norm_block = 4096;  // the grain of gradient norms; chunks are cut along it
  List<Extra> extras{};
  // Host memory that each task of a step takes: planning it, its description, running it.
  Bytes task_bytes = 0;
  // Micro-batches that run, but whose tasks are left out of programs: they are as others are.
  std::int64_t passes_left_out = 0;

  Bytes extra(Tier tier) const;
  std::int64_t parameters() const;
  // Of what a step tells the host: a loss for each micro-batch, those of other ranks included, a
  // sum of squares for each norm block of every tensor.
  Bytes report_bytes() const;
  std::int64_t reported_losses() const {
    return ranks.grouped() ? ranks.micro_batches : micro_batches;
  }
  // Of one parameter in the gradient of a group: as it was made, or a sum in fp32.
  Bytes plane_bytes() const { return ranks.group_size() == 1 ? gradient_bytes : 4; }
  // The places in `blocks` of those of a kind.
  List<int> all_of(BlockKind kind) const;
  std::int64_t layers() const { return all_of(BlockKind::layer).count(); }
  // What one parameter costs in a gradient sum over the micro-batches; 0 where none is kept. The
  // sum after the first of two is a gradient itself; from three on it is fp32.
  Bytes sum_bytes() const;
  // Whether sums in host memory are in two planes: the first two gradients, which become halves of
  // the sum with the third.
  bool sums_in_planes() const { return micro_batches > 2 && 2 * gradient_bytes == sum_bytes(); }
  // Bytes that are read and written for each parameter to take in the gradient of a micro-batch.
  // The first gradient is the sum until the second comes.
  Bytes sum_traffic(std::int64_t micro) const;
};

// The same work with at most so many micro-batches in its programs. What those left out hold and
// cost in memory is counted all the same. Three have the bytes of any more.
Workload shortened(Workload, std::int64_t passes);

}  // namespace ebb::plan
