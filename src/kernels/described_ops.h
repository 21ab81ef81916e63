// The table of model ops: for every call its kind, its cost and the addresses it is given. Ops that
// do not compute derive from it and have one function for all ops: counting (counting_ops.h),
// timing one kind of op, running a call in other memory (tests). A new op is described here once.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/function_ref.h"
#include "kernels/model_ops.h"

namespace ebb::kernels {

enum class OpKind : std::uint8_t { product, attention, attention_backward, pass };

// flops: a multiply-add is two, an exponential or a root is one; masked attention is not counted.
// bytes: each operand read or written once.
struct OpCall {
  OpKind kind = OpKind::pass;
  double flops = 0;
  double bytes = 0;
  const Product* product = nullptr;           // where the kind is product: this,
  const Linear* linear = nullptr;             // or this
  const AttentionShape* attention = nullptr;  // where it is one of attention's
  DType type = DType::f32;                    // of attention's operands
};

// An address among a call's arguments. It can be replaced before the call is run.
class Address {
 public:
  template <class T>
  Address(T*& argument)  // NOLINT: implicit, for lists of them
      : value_(argument), argument_(&argument), replace_([](void* at, const void* to) {
          *static_cast<T**>(at) = static_cast<T*>(const_cast<void*>(to));
        }) {}
  template <class T>
  Address(std::span<T>& argument)  // NOLINT: as above
      : value_(argument.data()), argument_(&argument), replace_([](void* at, const void* to) {
          auto& span = *static_cast<std::span<T>*>(at);
          span = {static_cast<T*>(const_cast<void*>(to)), span.size()};
        }) {}

  const void* value() const { return value_; }  // may be null
  void replace(const void* to) const { replace_(argument_, to); }

 private:
  const void* value_;
  void* argument_;
  void (*replace_)(void* argument, const void* to);
};

// Products that are activated in one pass come as the two calls that they stand for.
class DescribedOps : public ModelOps {
 public:
  using ModelOps::cross_entropy;
  using ModelOps::embed;
  using ModelOps::embed_backward;
  using ModelOps::linear;
  using ModelOps::matmul;
  void matmul(View c, ConstView a, ConstView b, const MatmulOptions& options) override;
  void linear(View y, ConstView x, const WeightMatrix& weights,
              const LinearOptions& options) override;
  void column_sums(void* out, DType type, ConstView x) override;
  void add_row(View x, const void* row) override;
  void embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale,
             std::int64_t first) override;
  void embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids, float scale,
             std::int64_t first) override;
  void embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids, float scale,
                      std::int64_t first) override;
  void norm(View y, float* stats, bool stats_given, ConstView x, const void* weight,
            const void* bias, const LayerNorm& norm) override;
  void norm_backward(const NormGradients& to, ConstView dy, ConstView x, const float* stats,
                     const void* weight, const LayerNorm& norm) override;
  void rope(View x, const float* table, const RopeShape& shape) override;
  void attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                 const AttentionShape& shape) override;
  void attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q, ConstView k,
                          ConstView v, ConstView out, const float* log_sums,
                          const AttentionShape& shape) override;
  void activate(View h, ConstView x, Activation activation) override;
  void activate_backward(View dx, View h, ConstView dh, ConstView x,
                         Activation activation) override;
  void cross_entropy(const Pieces& dlogits, float* losses, const ConstPieces& logits,
                     std::span<const std::int32_t> targets, float scale) override;
  void row_statistics(RowStatistic* to, const RowPiece& piece,
                      std::span<const std::int32_t> targets, DType type) override;
  void row_losses(float* losses, const RowStatistics& statistics,
                  std::span<const std::int32_t> targets, DType type) override;
  void row_gradients(View dlogits, const RowPiece& piece, const RowStatistics& statistics,
                     std::span<const std::int32_t> targets, float scale) override;
  void sum(double* total, const float* values, std::int64_t count) override;
  void convert(View dst, ConstView src) override;
  void fill_zero(void* data, Bytes bytes) override;

 protected:
  // Every call comes here. `run` makes it on other ops, with the addresses as they then are.
  virtual void call(const OpCall& call, std::initializer_list<Address> addresses,
                    FunctionRef<void(ModelOps&)> run) = 0;
};

}  // namespace ebb::kernels
