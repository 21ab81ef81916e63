// Runs the ops of one kind alone and leaves out the others, so that the model's own code shows how
// fast each kind is at its own shapes. What it computes means nothing. Products that a backend
// makes and activates in one pass are two kinds here, as they are to the plan.
#pragma once

#include "kernels/counting_ops.h"

namespace ebb::engine {

class ChosenOps final : public kernels::ModelOps {
 public:
  using Kind = kernels::CountingOps::Kind;
  using View = kernels::View;
  using ConstView = kernels::ConstView;
  using AttentionShape = kernels::AttentionShape;

  ChosenOps(kernels::ModelOps& ops, Kind kind) : ops_(ops), kind_(kind) {}

  void matmul(View c, ConstView a, ConstView b, const kernels::MatmulOptions& options) override {
    if (kind_ == Kind::product) ops_.matmul(c, a, b, options);
  }
  void attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape) override {
    if (kind_ == Kind::attention) ops_.attention(out, log_sums, q, k, v, shape);
  }
  void attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q, ConstView k,
                          ConstView v, ConstView out, const float* log_sums,
                          const AttentionShape& shape) override {
    if (kind_ == Kind::attention_backward) {
      ops_.attention_backward(dq, dk, dv, dout, q, k, v, out, log_sums, shape);
    }
  }
  void column_sums(void* out, DType type, ConstView x) override {
    if (passes()) ops_.column_sums(out, type, x);
  }
  void add_row(View x, const void* row) override {
    if (passes()) ops_.add_row(x, row);
  }
  void embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale) override {
    if (passes()) ops_.embed(out, table, ids, scale);
  }
  void embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids,
                      float scale) override {
    if (passes()) ops_.embed_backward(sums, dy, ids, scale);
  }
  void norm(View y, float* stats, bool given, ConstView x, const void* weight, const void* bias,
            const kernels::Norm& norm) override {
    if (passes()) ops_.norm(y, stats, given, x, weight, bias, norm);
  }
  void norm_backward(const kernels::NormGradients& to, ConstView dy, ConstView x,
                     const float* stats, const void* weight, const kernels::Norm& norm) override {
    if (passes()) ops_.norm_backward(to, dy, x, stats, weight, norm);
  }
  void rope(View x, const float* table, const RopeShape& shape) override {
    if (passes()) ops_.rope(x, table, shape);
  }
  void activate(View h, ConstView x, kernels::Activation activation) override {
    if (passes()) ops_.activate(h, x, activation);
  }
  void activate_backward(View dx, View h, ConstView dh, ConstView x,
                         kernels::Activation activation) override {
    if (passes()) ops_.activate_backward(dx, h, dh, x, activation);
  }
  void cross_entropy(View dlogits, float* losses, ConstView logits,
                     std::span<const std::int32_t> targets, float scale) override {
    if (passes()) ops_.cross_entropy(dlogits, losses, logits, targets, scale);
  }
  void sum(double* total, const float* values, std::int64_t count) override {
    if (passes()) ops_.sum(total, values, count);
  }
  void convert(View dst, ConstView src) override {
    if (passes()) ops_.convert(dst, src);
  }
  void fill_zero(void* data, Bytes bytes) override {
    if (passes()) ops_.fill_zero(data, bytes);
  }

  Bytes matmul_scratch(View c, ConstView a, ConstView b,
                       const kernels::MatmulOptions& options) const override {
    return ops_.matmul_scratch(c, a, b, options);
  }
  Bytes attention_scratch(DType type, const AttentionShape& shape, bool backward) const override {
    return ops_.attention_scratch(type, shape, backward);
  }
  void bind_scratch(std::span<std::byte> scratch) override { ops_.bind_scratch(scratch); }

 private:
  bool passes() const { return kind_ == Kind::pass; }

  kernels::ModelOps& ops_;
  Kind kind_;
};

}  // namespace ebb::engine
