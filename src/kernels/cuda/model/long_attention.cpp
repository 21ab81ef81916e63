#include "kernels/cuda/model/long_attention.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "kernels/cuda/model/launch.h"

namespace ebb::kernels::cuda_model {
namespace {

constexpr std::int64_t kGrain = 128;  // of positions: what the library's own tiles are made of

std::int64_t group_of(const AttentionShape& shape) { return shape.heads / shape.kv_heads; }
Bytes pair_bytes(const AttentionShape& shape) {
  return 2 * group_of(shape) * shape.queries * shape.keys;
}

// Positions of a tile: as many as may be, evenly cut.
std::int64_t tile_of(const AttentionShape& shape) {
  const auto most = static_cast<std::int64_t>(
      std::sqrt(static_cast<double>(kMostPairBytes / (2 * group_of(shape)))));
  const std::int64_t tiles = (shape.keys + most - 1) / most;
  const std::int64_t even = (shape.keys + tiles - 1) / tiles;
  return std::min((even + kGrain - 1) / kGrain * kGrain, most / kGrain * kGrain);
}

// One key head and its query heads; gradients of a tile have no gaps.
FusedProblem tile_problem(const FusedProblem& whole, std::int64_t queries, std::int64_t keys,
                          bool diagonal) {
  FusedProblem tile = whole;
  tile.shape.batch = 1;
  tile.shape.heads = group_of(whole.shape);
  tile.shape.kv_heads = 1;
  tile.shape.queries = queries;
  tile.shape.keys = keys;
  tile.causal = diagonal;
  tile.dq_stride = tile.shape.heads * whole.shape.head_dim;
  tile.dk_stride = tile.dv_stride = whole.shape.head_dim;
  return tile;
}

// Where things lie in the workspace: sums of a head's queries and of a tile's keys and values, a
// tile's gradients and log_sums, and the library's own.
struct Workspace {
  Workspace(const AttentionShape& shape, std::int64_t tile) {
    const std::int64_t d = shape.head_dim, width = group_of(shape) * d;
    dq_sums = take(4 * shape.queries * width);
    dk_sums = take(4 * tile * d);
    dv_sums = take(4 * tile * d);
    log_sums = take(4 * tile * group_of(shape));
    dq = take(2 * tile * width);
    dk = take(2 * tile * d);
    dv = take(2 * tile * d);
  }

  Bytes dq_sums, dk_sums, dv_sums, log_sums, dq, dk, dv;
  Bytes rest = 0;

 private:
  Bytes take(Bytes bytes) {
    constexpr Bytes alignment = 256;
    const Bytes at = rest;
    rest += (bytes + alignment - 1) / alignment * alignment;
    return at;
  }
};

const std::byte* behind(const void* rows, std::int64_t elements) {
  return static_cast<const std::byte*>(rows) + elements * 2;
}
std::byte* behind(void* rows, std::int64_t elements) {
  return static_cast<std::byte*>(rows) + elements * 2;
}

}  // namespace

bool is_long(const AttentionShape& shape) {
  return shape.window == 0 && shape.queries == shape.keys && pair_bytes(shape) > kMostPairBytes;
}

std::optional<Bytes> long_backward_workspace(FusedAttention& fused, const FusedProblem& whole) {
  const AttentionShape& shape = whole.shape;
  const std::int64_t tile = tile_of(shape);
  const std::int64_t last = shape.keys - (shape.keys - 1) / tile * tile;
  Bytes most = 0;
  // The shapes that there are: whole tiles, the last one, and its queries over whole tiles.
  for (const auto& [queries, keys, diagonal] : {std::tuple{tile, tile, true},
                                                {tile, tile, false},
                                                {last, tile, false},
                                                {last, last, true}}) {
    const auto bytes = fused.workspace(tile_problem(whole, queries, keys, diagonal));
    if (!bytes) return std::nullopt;
    most = std::max(most, *bytes);
  }
  return Workspace(shape, tile).rest + most;
}

void run_long_backward(FusedAttention& fused, const FusedProblem& whole,
                       const FusedOperands& operands, std::byte* memory, cudaStream_t stream) {
  const AttentionShape& shape = whole.shape;
  const std::int64_t tile = tile_of(shape), d = shape.head_dim, group = group_of(shape);
  const std::int64_t width = group * d;  // of the query heads of a key head
  const Workspace work(shape, tile);
  const auto floats = [&](Bytes at) { return reinterpret_cast<float*>(memory + at); };
  float* const log_sums = floats(work.log_sums);
  float* const dq_sums = floats(work.dq_sums);
  float* const dk_sums = floats(work.dk_sums);
  float* const dv_sums = floats(work.dv_sums);
  std::byte *const dq = memory + work.dq, *const dk = memory + work.dk,
                   *const dv = memory + work.dv;
  const auto tile_at = [&](std::int64_t first) { return std::min(tile, shape.keys - first); };

  const auto key_tile = [&](std::int64_t row, std::int64_t head, std::int64_t key) {
    const std::int64_t keys = tile_at(key);
    const std::int64_t kv_column = head * d, column = head * width;
    for (std::int64_t query = key; query < shape.queries; query += tile) {
      const std::int64_t queries = tile_at(query);
      const float* const statistics =
          operands.log_sums + (row / shape.queries * shape.heads + head * group) * shape.queries +
          query;
      check(cudaMemcpy2DAsync(log_sums, static_cast<std::size_t>(queries * 4), statistics,
                              static_cast<std::size_t>(shape.queries * 4),
                              static_cast<std::size_t>(queries * 4),
                              static_cast<std::size_t>(group), cudaMemcpyDeviceToDevice, stream),
            "attention_backward");
      const FusedOperands part{behind(operands.q, (row + query) * whole.q_stride + column),
                               behind(operands.k, (row + key) * whole.k_stride + kv_column),
                               behind(operands.v, (row + key) * whole.v_stride + kv_column),
                               behind(operands.out, (row + query) * whole.out_stride + column),
                               log_sums,
                               behind(operands.dout, (row + query) * whole.dout_stride + column),
                               dq,
                               dk,
                               dv};
      fused.run(tile_problem(whole, queries, keys, query == key), part, memory + work.rest, stream);
      add_up(dq_sums + query * width, dq, queries, width, key == 0, stream);
      add_up(dk_sums, dk, keys, d, query == key, stream);
      add_up(dv_sums, dv, keys, d, query == key, stream);
    }
    round_sums(behind(operands.dk, (row + key) * whole.dk_stride + kv_column), whole.dk_stride,
               dk_sums, keys, d, stream);
    round_sums(behind(operands.dv, (row + key) * whole.dv_stride + kv_column), whole.dv_stride,
               dv_sums, keys, d, stream);
  };

  for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
    const std::int64_t row = batch * shape.queries;
    for (std::int64_t head = 0; head < shape.kv_heads; ++head) {
      for (std::int64_t key = 0; key < shape.keys; key += tile) key_tile(row, head, key);
      round_sums(behind(operands.dq, row * whole.dq_stride + head * width), whole.dq_stride,
                 dq_sums, shape.queries, width, stream);
    }
  }
}

}  // namespace ebb::kernels::cuda_model
