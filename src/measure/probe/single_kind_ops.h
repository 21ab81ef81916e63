// Runs the ops of one kind alone and leaves out the others, so that the model's own code shows how
// fast each kind is at its own shapes. What it computes means nothing. Products that a backend
// makes and activates in one pass are two kinds here, as they are to the plan.
#pragma once

#include "kernels/described_ops.h"

namespace ebb::measure {

class ChosenOps final : public kernels::DescribedOps {
 public:
  using Kind = kernels::OpKind;

  ChosenOps(kernels::ModelOps& ops, Kind kind) : ops_(ops), kind_(kind) {}

 protected:
  void call(const kernels::OpCall& call, std::initializer_list<kernels::Address>,
            FunctionRef<void(kernels::ModelOps&)> run) override {
    if (call.kind == kind_) run(ops_);
  }

 private:
  kernels::ModelOps& ops_;
  Kind kind_;
};

}  // namespace ebb::measure
