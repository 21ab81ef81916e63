// Three kernels without atomics. deltas: dout . out of every query and head. keys: a block has a
// tile of keys of one key head and walks the queries that see them, head by head. queries: a block
// has a tile of queries of one head and walks the keys they see. Scores are computed twice, which
// is what a fixed order of every sum costs. Tiles that a window hides are left out.
#include "kernels/cuda/model/attention_launch.cuh"
#include "kernels/cuda/model/attention_tiles.cuh"
#include "kernels/cuda/model/tiled_attention.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels::cuda_model {
namespace {

template <class T>
struct Backward {
  Matrix<T> dq, dk, dv;
  Matrix<const T> dout, out, q, k, v;
  const float* log_sums;
  float* deltas;
  bool dout_vectors, q_vectors, k_vectors, v_vectors;
};

// Four tiles of heads and two of scores must fit into shared memory, and two of the gradients into
// registers.
template <int D>
constexpr int kTile = D <= 128 ? 64 : 32;
template <int D>
constexpr Bytes kSharedBytes = (4 * kTile<D> * kHeadStride<D> +
                                2 * kTile<D> * kScoreStride<kTile<D>>)*sizeof(float);

// A warp has one query of one head.
template <class T>
__global__ void sum_deltas(Backward<T> in, AttentionShape shape) {
  const std::int64_t index =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32;
  const std::int64_t lane = threadIdx.x % 32;
  if (index >= shape.batch * shape.heads * shape.queries) return;
  const std::int64_t query = index % shape.queries;
  const std::int64_t head = index / shape.queries % shape.heads;
  const std::int64_t row = index / shape.queries / shape.heads * shape.queries + query;
  float sum = 0;
  for (std::int64_t j = lane; j < shape.head_dim; j += 32) {
    const std::int64_t column = head * shape.head_dim + j;
    sum = fmaf(widen(in.dout.row(row)[column]), widen(in.out.row(row)[column]), sum);
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) in.deltas[index] = sum;
}

// The tiles of a block, and the softmax's gradient for one pair of them.
template <class T, int D>
struct Tiles {
  static constexpr int kSize = kTile<D>;
  static constexpr int kEach = kSize / kTileSide;

  float *queries, *douts, *keys, *values;
  float *weights, *slopes;  // of scores

  __device__ explicit Tiles(float* memory)
      : queries(memory),
        douts(queries + kSize * kHeadStride<D>),
        keys(douts + kSize * kHeadStride<D>),
        values(keys + kSize * kHeadStride<D>),
        weights(values + kSize * kHeadStride<D>),
        slopes(weights + kSize * kScoreStride<kSize>) {}

  __device__ void load_queries(const Backward<T>& in, const AttentionShape& shape,
                               std::int64_t batch, std::int64_t head, std::int64_t first) {
    const int width = static_cast<int>(shape.head_dim);
    const std::int64_t row = batch * shape.queries + first, count = shape.queries - first;
    load_tile<kSize, D>(queries, TileSource<T>{in.q.row(row) + head * width, in.q.stride, count,
                                               width, in.q_vectors});
    load_tile<kSize, D>(douts, TileSource<T>{in.dout.row(row) + head * width, in.dout.stride, count,
                                             width, in.dout_vectors});
  }
  __device__ void load_keys(const Backward<T>& in, const AttentionShape& shape, std::int64_t batch,
                            std::int64_t kv_head, std::int64_t first) {
    const int width = static_cast<int>(shape.head_dim);
    const std::int64_t row = batch * shape.keys + first, count = shape.keys - first;
    load_tile<kSize, D>(keys, TileSource<T>{in.k.row(row) + kv_head * width, in.k.stride, count,
                                            width, in.k_vectors});
    load_tile<kSize, D>(values, TileSource<T>{in.v.row(row) + kv_head * width, in.v.stride, count,
                                              width, in.v_vectors});
  }

  // p and ds of this thread's pairs (query y + 16 i, key x + 16 j), zero where nothing is seen.
  // `statistics` is where the head's log_sums and deltas of the batch entry start.
  template <bool Windowed>
  __device__ void pairs(float (&p)[kEach][kEach], float (&ds)[kEach][kEach], const Backward<T>& in,
                        const AttentionShape& shape, std::int64_t statistics,
                        std::int64_t query_first, std::int64_t key_first) const {
    const int depth = (static_cast<int>(shape.head_dim) + 3) / 4 * 4;
    multiply_heads<D>(p, queries, keys, depth);
    multiply_heads<D>(ds, douts, values, depth);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const std::int64_t query = query_first + tile_y() + i * kTileSide;
      const bool exists = query < shape.queries;
      const float log_sum = exists ? in.log_sums[statistics + query] : 0.0f;
      const float delta = exists ? in.deltas[statistics + query] : 0.0f;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        // Keys end where queries do, so a key that a query sees exists.
        const std::int64_t key = key_first + tile_x() + j * kTileSide;
        const bool seen = exists && sees<Windowed>(query, key, shape.window);
        p[i][j] = seen ? expf(fmaf(p[i][j], shape.scale, -log_sum)) : 0.0f;
        ds[i][j] = seen ? p[i][j] * (ds[i][j] - delta) * shape.scale : 0.0f;
      }
    }
  }
};

template <class T, int D, bool Windowed>
__global__ void __launch_bounds__(kTileThreads)
    keys_backward(Backward<T> in, AttentionShape shape, unsigned tiles) {
  extern __shared__ __align__(16) float memory[];
  using Work = Tiles<T, D>;
  constexpr int each = Work::kEach, size = Work::kSize, stride = kScoreStride<size>;
  Work work(memory);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x % tiles) * size;
  const std::int64_t kv_head = blockIdx.x / tiles % shape.kv_heads;
  const std::int64_t batch = blockIdx.x / tiles / shape.kv_heads;
  const std::int64_t group = shape.heads / shape.kv_heads;

  work.load_keys(in, shape, batch, kv_head, first);
  HeadTile<D, each> dk, dv;
  // The last key of the tile is the last to go out of sight: first + size - 1 + window on.
  const std::int64_t end =
      Windowed ? min(shape.queries, first + size - 1 + shape.window) : shape.queries;
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const std::int64_t statistics = (batch * shape.heads + head) * shape.queries;
    for (std::int64_t query = first; query < end; query += size) {
      __syncthreads();  // the last round's tiles have been read
      work.load_queries(in, shape, batch, head, query);
      __syncthreads();
      float p[each][each], ds[each][each];
      work.template pairs<Windowed>(p, ds, in, shape, statistics, query, first);
#pragma unroll
      for (int i = 0; i < each; ++i) {
#pragma unroll
        for (int j = 0; j < each; ++j) {
          // Transposed: keys are the rows of what follows.
          const int at = (tile_x() + j * kTileSide) * stride + tile_y() + i * kTileSide;
          work.weights[at] = p[i][j];
          work.slopes[at] = ds[i][j];
        }
      }
      __syncthreads();
      dv.template add<size>(work.weights, work.douts);
      dk.template add<size>(work.slopes, work.queries);
    }
  }
  const int width = static_cast<int>(shape.head_dim);
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const std::int64_t key = first + tile_y() + i * kTileSide;
    if (key >= shape.keys) continue;
    dk.write(in.dk.row(batch * shape.keys + key) + kv_head * width, i, 1.0f, width);
    dv.write(in.dv.row(batch * shape.keys + key) + kv_head * width, i, 1.0f, width);
  }
}

template <class T, int D, bool Windowed>
__global__ void __launch_bounds__(kTileThreads)
    queries_backward(Backward<T> in, AttentionShape shape, unsigned tiles) {
  extern __shared__ __align__(16) float memory[];
  using Work = Tiles<T, D>;
  constexpr int each = Work::kEach, size = Work::kSize, stride = kScoreStride<size>;
  Work work(memory);
  const std::int64_t first = static_cast<std::int64_t>(tiles - 1 - blockIdx.x % tiles) * size;
  const std::int64_t head = blockIdx.x / tiles % shape.heads;
  const std::int64_t batch = blockIdx.x / tiles / shape.heads;
  const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
  const std::int64_t statistics = (batch * shape.heads + head) * shape.queries;

  work.load_queries(in, shape, batch, head, first);
  HeadTile<D, each> dq;
  const std::int64_t begin = first_tile<size, Windowed>(first, shape.window);
  for (std::int64_t key = begin; key <= first; key += size) {
    __syncthreads();
    work.load_keys(in, shape, batch, kv_head, key);
    __syncthreads();
    float p[each][each], ds[each][each];
    work.template pairs<Windowed>(p, ds, in, shape, statistics, first, key);
#pragma unroll
    for (int i = 0; i < each; ++i) {
#pragma unroll
      for (int j = 0; j < each; ++j) {
        work.slopes[(tile_y() + i * kTileSide) * stride + tile_x() + j * kTileSide] = ds[i][j];
      }
    }
    __syncthreads();
    dq.template add<size>(work.slopes, work.keys);
  }
  const int width = static_cast<int>(shape.head_dim);
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const std::int64_t query = first + tile_y() + i * kTileSide;
    if (query >= shape.queries) continue;
    dq.write(in.dq.row(batch * shape.queries + query) + head * width, i, 1.0f, width);
  }
}

template <class T, int D, bool Windowed>
void launch(const Backward<T>& backward, const AttentionShape& shape, cudaStream_t stream) {
  const std::int64_t tiles = (shape.queries + kTile<D> - 1) / kTile<D>;
  const auto start = [&](auto kernel, std::int64_t heads) {
    allow_shared(reinterpret_cast<const void*>(kernel), kSharedBytes<D>, "attention_backward");
    kernel<<<grid_size(tiles * heads * shape.batch, "attention_backward"), kTileThreads,
             kSharedBytes<D>, stream>>>(backward, shape, static_cast<unsigned>(tiles));
  };
  start(keys_backward<T, D, Windowed>, shape.kv_heads);
  start(queries_backward<T, D, Windowed>, shape.heads);
}

}  // namespace

void tiled_attention_backward(const AttentionGradients& gradients, const AttentionInputs& inputs,
                              cudaStream_t stream) {
  const AttentionShape& shape = inputs.shape;
  const std::int64_t statistics = shape.batch * shape.heads * shape.queries;
  if (statistics == 0) return;
  constexpr int threads = 256, warps = threads / 32;
  with_element(inputs.q.type, [&]<class T>(T) {
    const Backward<T> backward{in<T>(gradients.dq),
                               in<T>(gradients.dk),
                               in<T>(gradients.dv),
                               in<T>(gradients.dout),
                               in<T>(gradients.out),
                               in<T>(inputs.q),
                               in<T>(inputs.k),
                               in<T>(inputs.v),
                               gradients.log_sums,
                               gradients.deltas,
                               heads_vectorize(gradients.dout, shape.head_dim),
                               heads_vectorize(inputs.q, shape.head_dim),
                               heads_vectorize(inputs.k, shape.head_dim),
                               heads_vectorize(inputs.v, shape.head_dim)};
    sum_deltas<<<grid_size((statistics + warps - 1) / warps, "attention_backward"), threads, 0,
                 stream>>>(backward, shape);
    with_head_width(shape.head_dim, [&]<int D>(std::integral_constant<int, D>) {
      with_window(shape, [&]<bool Windowed>(std::bool_constant<Windowed>) {
        launch<T, D, Windowed>(backward, shape, stream);
      });
    });
  });
  check_launch("attention_backward");
}

}  // namespace ebb::kernels::cuda_model
