// A ModelOps that computes nothing and touches no memory: it adds up what a backend would do. The
// plan runs a model's own forward and backward through it to learn what they cost.
#pragma once

#include <vector>

#include "kernels/described_ops.h"
#include "kernels/model_library.h"

namespace ebb::kernels {

class CountingOps : public DescribedOps {
 public:
  using Kind = OpKind;
  struct Call {
    Kind kind = Kind::pass;
    double flops = 0;
    double bytes = 0;
    std::int64_t shortest = 0;  // of a product's three sides
  };
  // Flops and bytes are those of OpCall. scratch: the largest need of a call.
  struct Count {
    double flops = 0;
    double bytes = 0;
    Bytes scratch = 0;
    std::vector<Call> calls{};  // that these are the sums of
  };

  // `needs` is a library, or what is known of one; it outlives this.
  explicit CountingOps(const WorkspaceNeeds& needs) : needs_(needs) {}

  // Returns what was added up since the last call, and starts anew.
  Count take();
  Bytes library_bytes() const { return needs_.library_bytes(); }

 protected:
  void call(const OpCall& call, std::initializer_list<Address> addresses,
            FunctionRef<void(ModelOps&)> run) override;

 private:
  Bytes scratch_for(const OpCall& call) const;

  const WorkspaceNeeds& needs_;
  Count count_;
};

}  // namespace ebb::kernels
