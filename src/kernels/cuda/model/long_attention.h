// The backward of attention over long sequences by the library, whose deterministic kernels want a
// bf16 for each pair of positions: tile by tile of queries and keys, one key head and its query
// heads at a time, so that the workspace is linear in the length. What tiles give is added up in
// fp32, keys from the first tile to the last and queries likewise, so bits depend on the shape
// alone.
#pragma once

#include <optional>

#include "kernels/cuda/model/fused_attention.h"

namespace ebb::kernels::cuda_model {

// The most bytes that the library may keep for pairs of positions.
inline constexpr Bytes kMostPairBytes = 1 * kGiB;

// Whether one key head alone would keep more. A window hides most pairs; the library has its own
// way with those.
bool is_long(const AttentionShape& shape);

// Bytes of workspace for a long problem, or nothing where the library refuses a tile.
std::optional<Bytes> long_backward_workspace(FusedAttention& fused, const FusedProblem& whole);

// `workspace` has those bytes and lies on 256.
void run_long_backward(FusedAttention& fused, const FusedProblem& whole,
                       const FusedOperands& operands, std::byte* workspace, cudaStream_t stream);

// sums = part, or sums += part: rows of `cols` elements, whole packs of 8, without gaps.
void add_up(float* sums, const void* part, std::int64_t rows, std::int64_t cols, bool first,
            cudaStream_t stream);
// Rounds sums into rows of bf16 that are `stride` elements apart.
void round_sums(void* to, std::int64_t stride, const float* sums, std::int64_t rows,
                std::int64_t cols, cudaStream_t stream);

}  // namespace ebb::kernels::cuda_model
