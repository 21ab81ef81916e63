// The specification as a ModelOps: plain loops, sums in double, no scratch, no threads.
#pragma once

#include "kernels/model_ops.h"

namespace ebb::kernels {

class ReferenceOps : public ModelOps {
 public:
  using ModelOps::matmul;
  void matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) override;
  void column_sums(void* out, DType type, ConstView x) override;
  void embed(View out, ConstView table, std::span<const std::int32_t> ids) override;
  void embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids) override;
  void rms_norm(View y, float* rstd, bool rstd_given, ConstView x, const void* weight,
                float epsilon) override;
  void rms_norm_backward(View dx, void* dweight, DType dweight_type, ConstView dy, ConstView x,
                         const float* rstd, const void* weight) override;
  void rope(View x, const float* table, const RopeShape& shape) override;
  void attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape) override;
  void attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q, ConstView k,
                          ConstView v, ConstView out, const float* log_sums,
                          const AttentionShape& shape) override;
  void swiglu(View h, ConstView gate_up) override;
  void swiglu_backward(View dgate_up, ConstView dh, ConstView gate_up) override;
  void cross_entropy(View dlogits, float* losses, ConstView logits,
                     std::span<const std::int32_t> targets, float scale) override;
  void sum(double* total, const float* values, std::int64_t count) override;
  void convert(View dst, ConstView src) override;
  void fill_zero(void* data, Bytes bytes) override;

  Bytes matmul_scratch(View, ConstView, ConstView, const MatmulOptions&) const override {
    return 0;
  }
  Bytes attention_scratch(DType, const AttentionShape&, bool) const override { return 0; }
  void bind_scratch(std::span<std::byte>) override {}
};

}  // namespace ebb::kernels
