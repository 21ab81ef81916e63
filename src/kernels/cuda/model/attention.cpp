// Which attention runs: the library's for training shapes that it is made for, own kernels for the
// rest. The choice, and the slices and tiles of a backward, follow from type, shape and strides.
#include <algorithm>

#include "kernels/cuda/model/cuda_model_library.h"
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/launch.h"
#include "kernels/cuda/model/long_attention.h"
#include "kernels/cuda/model/tiled_attention.h"

namespace ebb::kernels {
namespace {

// Shapes of training: whole sequences, in bf16, with the usual heads. Decoding and short sequences
// are for own kernels.
bool suits_library(DType type, const AttentionShape& shape) {
  const bool heads = shape.head_dim == 64 || shape.head_dim == 128 || shape.head_dim == 256;
  return type == DType::bf16 && heads && shape.queries == shape.keys && shape.keys >= 128 &&
         shape.batch > 0;
}

// A window as long as all keys hides none: no other kernel, no other bits.
AttentionShape plain_where_nothing_is_hidden(AttentionShape shape) {
  if (shape.window >= shape.keys) shape.window = 0;
  return shape;
}

// Whether rows can be read eight elements at a time.
bool on_vectors(std::initializer_list<ConstView> views) {
  return std::all_of(views.begin(), views.end(), [](const ConstView& view) {
    return cuda_model::can_vectorize(view, view.cols, 8);
  });
}

// A part of the batch, or where one entry is too much, of its key heads with their query heads.
struct Slice {
  std::int64_t batch, entries;     // first and count
  std::int64_t kv_head, kv_heads;  // first and count
};

// The size of equal parts, of `most` at most.
std::int64_t evenly(std::int64_t count, std::int64_t most) {
  const std::int64_t parts = (count + most - 1) / most;
  return (count + parts - 1) / parts;
}

template <class Body>
void for_slices(const AttentionShape& shape, bool backward, const Body& body) {
  const std::int64_t group = shape.heads / shape.kv_heads;
  // The library's deterministic backward may keep two bytes for each pair of positions: slices
  // bound that.
  const Bytes head_bytes = 2 * group * shape.queries * shape.keys;
  const std::int64_t heads_that_fit =
      backward ? std::max<std::int64_t>(1, cuda_model::kMostPairBytes / head_bytes)
               : shape.batch * shape.kv_heads;
  const std::int64_t entries =
      evenly(shape.batch, std::max<std::int64_t>(1, heads_that_fit / shape.kv_heads));
  const std::int64_t kv_heads = evenly(shape.kv_heads, std::min(shape.kv_heads, heads_that_fit));
  for (std::int64_t batch = 0; batch < shape.batch; batch += entries) {
    for (std::int64_t head = 0; head < shape.kv_heads; head += kv_heads) {
      body(Slice{batch, std::min(entries, shape.batch - batch), head,
                 std::min(kv_heads, shape.kv_heads - head)});
    }
  }
}

// Strides stay those of the whole: a slice is a part of the same tensors.
FusedProblem problem_of(FusedProblem whole, const Slice& slice) {
  whole.shape.heads = whole.shape.heads / whole.shape.kv_heads * slice.kv_heads;
  whole.shape.kv_heads = slice.kv_heads;
  whole.shape.batch = slice.entries;
  return whole;
}

// The most workspace of any slice, or nothing where the library refuses one.
std::optional<Bytes> largest_workspace(FusedAttention& fused, const FusedProblem& whole) {
  if (whole.backward && cuda_model::is_long(whole.shape)) {
    return cuda_model::long_backward_workspace(fused, whole);
  }
  std::optional<Bytes> most = 0;
  for_slices(whole.shape, whole.backward, [&](const Slice& slice) {
    const std::optional<Bytes> bytes = fused.workspace(problem_of(whole, slice));
    most = most && bytes ? std::optional(std::max(*most, *bytes)) : std::nullopt;
  });
  return most;
}

// Elements are bf16.
const void* part(ConstView view, std::int64_t row, std::int64_t column) {
  return static_cast<const std::byte*>(view.data) + (row * view.stride + column) * 2;
}
void* part(View view, std::int64_t row, std::int64_t column) {
  return static_cast<std::byte*>(view.data) + (row * view.stride + column) * 2;
}

}  // namespace

Bytes CudaModelLibrary::attention_scratch(DType type, const AttentionShape& asked,
                                          bool backward) const {
  const AttentionShape shape = plain_where_nothing_is_hidden(asked);
  // Own kernels need a number for each row in the backward.
  Bytes bytes = backward ? shape.batch * shape.heads * shape.queries * 4 : 0;
  if (fused_attention_ && suits_library(type, shape)) {
    // Queries, keys and values beside each other in a row, as a decoder has them.
    const std::int64_t in = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    const std::int64_t out = shape.heads * shape.head_dim;
    const FusedProblem forward{shape, false, true, in, in, in, out, 0, 0, 0, 0};
    const FusedProblem gradient{shape, true, true, in, in, in, out, out, in, in, in};
    bytes = std::max(
        bytes, largest_workspace(*fused_attention_, backward ? gradient : forward).value_or(0));
  }
  return bytes == 0 ? 0 : bytes + CudaModelOps::kScratchAlignment;
}

void CudaModelOps::attention(View out, float* log_sums, ConstView q, ConstView k, ConstView v,
                             const AttentionShape& asked) {
  const AttentionShape shape = plain_where_nothing_is_hidden(asked);
  FusedAttention* const fused = library_.fused_attention();
  if (fused != nullptr && suits_library(q.type, shape) && on_vectors({out, q, k, v})) {
    const FusedProblem problem{
        shape, false, log_sums != nullptr, q.stride, k.stride, v.stride, out.stride, 0, 0, 0, 0};
    if (const std::optional<Bytes> bytes = fused->workspace(problem)) {
      const FusedOperands operands{q.data,  k.data,  v.data,  out.data, log_sums,
                                   nullptr, nullptr, nullptr, nullptr};
      fused->run(problem, operands, scratch(*bytes, "attention"), stream_);
      return;
    }
  }
  cuda_model::tiled_attention(out, log_sums, {q, k, v, shape}, stream_);
}

void CudaModelOps::attention_backward(View dq, View dk, View dv, ConstView dout, ConstView q,
                                      ConstView k, ConstView v, ConstView out,
                                      const float* log_sums, const AttentionShape& asked) {
  const AttentionShape shape = plain_where_nothing_is_hidden(asked);
  FusedAttention* const fused = library_.fused_attention();
  if (fused != nullptr && suits_library(q.type, shape) &&
      on_vectors({dq, dk, dv, dout, q, k, v, out})) {
    const FusedProblem whole{shape,      true,        true,      q.stride,  k.stride, v.stride,
                             out.stride, dout.stride, dq.stride, dk.stride, dv.stride};
    if (const std::optional<Bytes> bytes = largest_workspace(*fused, whole)) {
      std::byte* const workspace = scratch(*bytes, "attention_backward");
      if (cuda_model::is_long(shape)) {
        return cuda_model::run_long_backward(
            *fused, whole,
            {q.data, k.data, v.data, const_cast<void*>(out.data), const_cast<float*>(log_sums),
             dout.data, dq.data, dk.data, dv.data},
            workspace, stream_);
      }
      const std::int64_t d = shape.head_dim, group = shape.heads / shape.kv_heads;
      for_slices(shape, true, [&](const Slice& slice) {
        const std::int64_t row = slice.batch * shape.queries;
        const std::int64_t kv_column = slice.kv_head * d, column = kv_column * group;
        const std::int64_t statistics =
            (slice.batch * shape.heads + slice.kv_head * group) * shape.queries;
        const FusedOperands operands{part(q, row, column),
                                     part(k, row, kv_column),
                                     part(v, row, kv_column),
                                     const_cast<void*>(part(out, row, column)),
                                     const_cast<float*>(log_sums) + statistics,
                                     part(dout, row, column),
                                     part(dq, row, column),
                                     part(dk, row, kv_column),
                                     part(dv, row, kv_column)};
        fused->run(problem_of(whole, slice), operands, workspace, stream_);
      });
      return;
    }
  }
  const Bytes deltas = shape.batch * shape.heads * shape.queries * 4;
  cuda_model::tiled_attention_backward(
      {dq, dk, dv, dout, out, log_sums,
       reinterpret_cast<float*>(scratch(deltas, "attention_backward"))},
      {q, k, v, shape}, stream_);
}

}  // namespace ebb::kernels
