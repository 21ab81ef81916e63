// A block has 64 queries of one head and walks the keys they see, 64 at a time, with a running
// maximum and sum for each query. Tiles of keys that a window hides from all of them are left out.
#include <cmath>

#include "kernels/cuda/model/attention_launch.cuh"
#include "kernels/cuda/model/attention_tiles.cuh"
#include "kernels/cuda/model/tiled_attention.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels::cuda_model {
namespace {

constexpr int kTile = 64;
constexpr int kEach = kTile / kTileSide;

template <class T>
struct Forward {
  Matrix<T> out;
  Matrix<const T> q, k, v;
  float* log_sums;
  bool q_vectors, k_vectors, v_vectors;
};

// Keys and values take turns in one tile, so that two blocks fit a multiprocessor.
template <int D>
constexpr Bytes kSharedBytes = (2 * kTile * kHeadStride<D> +
                                kTile * kScoreStride<kTile>)*sizeof(float);

template <class T, int D, bool Windowed>
__global__ void __launch_bounds__(kTileThreads)
    attend(Forward<T> in, AttentionShape shape, unsigned tiles) {
  extern __shared__ __align__(16) float memory[];
  float* const queries = memory;
  float* const keys = queries + kTile * kHeadStride<D>;
  float* const weights = keys + kTile * kHeadStride<D>;

  // The last queries see most keys: they start first.
  const std::int64_t first = static_cast<std::int64_t>(tiles - 1 - blockIdx.x % tiles) * kTile;
  const std::int64_t head = blockIdx.x / tiles % shape.heads;
  const std::int64_t batch = blockIdx.x / tiles / shape.heads;
  const std::int64_t kv_column = head / (shape.heads / shape.kv_heads) * shape.head_dim;
  const std::int64_t past = shape.keys - shape.queries;
  const std::int64_t visible = min(shape.keys, past + first + kTile);
  const int width = static_cast<int>(shape.head_dim), depth = (width + 3) / 4 * 4;

  load_tile<kTile, D>(
      queries, TileSource<T>{in.q.row(batch * shape.queries + first) + head * width, in.q.stride,
                             shape.queries - first, width, in.q_vectors});
  HeadTile<D, kEach> out;
  float largest[kEach], total[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) largest[i] = -INFINITY, total[i] = 0;

  const std::int64_t begin = first_tile<kTile, Windowed>(past + first, shape.window);
  for (std::int64_t key = begin; key < visible; key += kTile) {
    const std::int64_t row = batch * shape.keys + key, count = shape.keys - key;
    __syncthreads();  // the values of the last round have been read
    load_tile<kTile, D>(
        keys, TileSource<T>{in.k.row(row) + kv_column, in.k.stride, count, width, in.k_vectors});
    __syncthreads();
    float scores[kEach][kEach];
    multiply_heads<D>(scores, queries, keys, depth);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t last = min(past + first + tile_y() + i * kTileSide, shape.keys - 1);
      float top = largest[i];
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        scores[i][j] *= shape.scale;
        const std::int64_t seen = key + tile_x() + j * kTileSide;
        if (sees<Windowed>(last, seen, shape.window)) top = fmaxf(top, scores[i][j]);
      }
      top = row_max(top);
      // Without a window every query sees key 0, so after the first round its maximum is a number.
      // With one, the first tile may be hidden from a later query: it has nothing to fade yet.
      const bool nothing = Windowed && top == -INFINITY;
      const float fade = nothing ? 1.0f : expf(largest[i] - top);
      largest[i] = top;
      total[i] *= fade;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int column = tile_x() + j * kTileSide;
        const float weight =
            sees<Windowed>(last, key + column, shape.window) ? expf(scores[i][j] - top) : 0.0f;
        total[i] += weight;
        weights[(tile_y() + i * kTileSide) * kScoreStride<kTile> + column] = weight;
      }
#pragma unroll
      for (int p = 0; p < HeadTile<D, kEach>::kPacks; ++p) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out.at[i][p][e] *= fade;
      }
    }
    __syncthreads();  // keys have been read, weights are written
    load_tile<kTile, D>(
        keys, TileSource<T>{in.v.row(row) + kv_column, in.v.stride, count, width, in.v_vectors});
    __syncthreads();
    out.template add<kTile>(weights, keys);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const float sum = row_sum(total[i]);
    const std::int64_t query = first + tile_y() + i * kTileSide;
    if (query >= shape.queries) continue;
    out.write(in.out.row(batch * shape.queries + query) + head * width, i, 1.0f / sum, width);
    if (in.log_sums != nullptr && tile_x() == 0) {
      in.log_sums[(batch * shape.heads + head) * shape.queries + query] = largest[i] + logf(sum);
    }
  }
}

}  // namespace

void tiled_attention(View out, float* log_sums, const AttentionInputs& inputs,
                     cudaStream_t stream) {
  const AttentionShape& shape = inputs.shape;
  const std::int64_t tiles = (shape.queries + kTile - 1) / kTile;
  const std::int64_t blocks = tiles * shape.heads * shape.batch;
  if (blocks == 0) return;
  with_element(inputs.q.type, [&]<class T>(T) {
    with_head_width(shape.head_dim, [&]<int D>(std::integral_constant<int, D>) {
      const Forward<T> forward{in<T>(out),
                               in<T>(inputs.q),
                               in<T>(inputs.k),
                               in<T>(inputs.v),
                               log_sums,
                               heads_vectorize(inputs.q, shape.head_dim),
                               heads_vectorize(inputs.k, shape.head_dim),
                               heads_vectorize(inputs.v, shape.head_dim)};
      with_window(shape, [&]<bool Windowed>(std::bool_constant<Windowed>) {
        allow_shared(reinterpret_cast<const void*>(attend<T, D, Windowed>), kSharedBytes<D>,
                     "attention");
        attend<T, D, Windowed>
            <<<grid_size(blocks, "attention"), kTileThreads, kSharedBytes<D>, stream>>>(
                forward, shape, static_cast<unsigned>(tiles));
      });
    });
  });
  check_launch("attention");
}

}  // namespace ebb::kernels::cuda_model
