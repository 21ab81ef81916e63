// A ModelOps that computes nothing and touches no memory: it adds up what a backend would do. The
// plan runs a model's own forward and backward through it to learn what they cost.
#pragma once

#include <vector>

#include "kernels/model_ops.h"

namespace ebb::kernels {

class CountingOps : public ModelOps {
 public:
  enum class Kind : std::uint8_t { product, attention, attention_backward, pass };
  struct Call {
    Kind kind = Kind::pass;
    double flops = 0;
    double bytes = 0;
    std::int64_t shortest = 0;  // of a product's three sides
  };
  // flops: a multiply-add is two, an exponential or a root is one; masked attention is not counted.
  // bytes: each operand read or written once. scratch: the largest need of a call.
  struct Count {
    double flops = 0;
    double bytes = 0;
    Bytes scratch = 0;
    std::vector<Call> calls{};  // that these are the sums of
  };

  // `backend` is asked for its scratch only; it outlives this.
  explicit CountingOps(const ModelOps& backend) : backend_(&backend) {}

  // What was added up since the last call.
  Count take();

  using ModelOps::matmul;
  void matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) override;
  void column_sums(void* out, DType type, ConstView x) override;
  void add_row(View x, const void* row) override;
  void embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale) override;
  void embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids,
                      float scale) override;
  void norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
            const void* bias, const Norm& norm) override;
  void norm_backward(const NormGradients& to, ConstView dy, ConstView x, const float* stats,
                     const void* weight, const Norm& norm) override;
  void rope(View x, const float* table, const RopeShape& shape) override;
  void attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape) override;
  void attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q, ConstView k,
                          ConstView v, ConstView out, const float* log_sums,
                          const AttentionShape& shape) override;
  void activate(View h, ConstView x, Activation activation) override;
  void activate_backward(View dx, View h, ConstView dh, ConstView x,
                         Activation activation) override;
  void cross_entropy(View dlogits, float* losses, ConstView logits,
                     std::span<const std::int32_t> targets, float scale) override;
  void sum(double* total, const float* values, std::int64_t count) override;
  void convert(View dst, ConstView src) override;
  void fill_zero(void* data, Bytes bytes) override;

  Bytes matmul_scratch(View c, ConstView a, ConstView b,
                       const MatmulOptions& options) const override {
    return backend_->matmul_scratch(c, a, b, options);
  }
  Bytes attention_scratch(DType type, const AttentionShape& shape, bool backward) const override {
    return backend_->attention_scratch(type, shape, backward);
  }
  void bind_scratch(std::span<std::byte>) override {}
  Bytes library_bytes() const override { return backend_->library_bytes(); }

 protected:
  // For who answers for a backend that is not there: overrides the three above.
  CountingOps() = default;

 private:
  void add(double flops, double bytes, Kind kind = Kind::pass, std::int64_t shortest = 0);
  void need(Bytes scratch);

  const ModelOps* backend_ = nullptr;
  Count count_;
};

}  // namespace ebb::kernels
