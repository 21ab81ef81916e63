// What model ops are made from. A library keeps what is costly to make and serves all tasks:
// handles, tables of matrix algorithms, plans of attention, compiled kernels. Ops themselves keep
// nothing.
#pragma once

#include <cstdint>

#include "kernels/bound_ops.h"
#include "kernels/model_ops.h"

namespace ebb::kernels {

class GemmTuner;

// What ops want besides their operands. Plans ask for it, also on behalf of machines that are not
// here.
class WorkspaceNeeds {
 public:
  virtual ~WorkspaceNeeds() = default;
  // Bytes of scratch for a call, a library's own workspace included. Addresses are not followed.
  virtual Bytes matmul_scratch(View c, ConstView a, ConstView b,
                               const MatmulOptions& options) const = 0;
  virtual Bytes linear_scratch(const Linear& linear) const = 0;
  virtual Bytes attention_scratch(DType type, const AttentionShape& shape, bool backward) const = 0;
  // The most that libraries take on the device by themselves during a call, besides scratch.
  virtual Bytes library_bytes() const = 0;
};

// Ops of one library are used by one lane at a time; lanes that compute at once have a library
// each. Outlives the ops made from it.
class ModelLibrary : public WorkspaceNeeds {
 public:
  // Throws Error where the context's stream is none of the library's device.
  virtual Bound<ModelOps> ops(const ExecutionContext& context) = 0;

  // The choice of products' algorithms (gemm_tuner.h); null where there is none.
  virtual GemmTuner* product_search() { return nullptr; }

  // Makes ahead what the product will want. What attention will want is made when its scratch is
  // asked for. Addresses count as in GemmTuner::chosen().
  virtual void prepare(const Product& product) = 0;
  // How many plans and kernels were made so far. While no op runs.
  virtual std::int64_t entries() const = 0;
  // Says that everything has been made that is to be used. What a call then still misses is made
  // all the same, as prompts come in all lengths, but it is counted: a training step makes nothing.
  void freeze() { frozen_at_ = entries(); }
  std::int64_t entries_since_freeze() const { return frozen_at_ < 0 ? 0 : entries() - frozen_at_; }

 private:
  std::int64_t frozen_at_ = -1;
};

}  // namespace ebb::kernels
