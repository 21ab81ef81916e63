// Products of tiles in shared memory, in fp32, for a block of 16 x 16 threads. Thread (x, y) has
// the rows y, y + 16, ... of a result and, of its columns, x, x + 16, ... where the result is a
// tile of scores, or packs of 4 from 4 x, 4 x + 64, ... where it has a head's width.
//
// Rows of a head are padded with zeros to D columns and 4 more, so that threads that read 4 floats
// of neighbouring rows use different banks.
#pragma once

#include "kernels/cuda/model/elements.cuh"

namespace ebb::kernels::cuda_model {

constexpr int kTileSide = 16;
constexpr int kTileThreads = kTileSide * kTileSide;

template <int D>
constexpr int kHeadStride = D + 4;
template <int Tile>
constexpr int kScoreStride = Tile + 4;

__device__ inline int tile_x() { return static_cast<int>(threadIdx.x) % kTileSide; }
__device__ inline int tile_y() { return static_cast<int>(threadIdx.x) / kTileSide; }

// A tile's rows in global memory; rows past `count` and columns past `width` read as zeros.
template <class T>
struct TileSource {
  const T* data;
  std::int64_t stride;
  std::int64_t count;
  int width;
  bool vectors;  // rows start on 16 bytes and `width` is whole packs
};

template <int Tile, int D, class T>
__device__ void load_tile(float* to, const TileSource<T>& from) {
  constexpr int width = 16 / sizeof(T);
  constexpr int packs = D / width;
  for (int at = threadIdx.x; at < Tile * packs; at += kTileThreads) {
    const int row = at / packs, column = at % packs * width;
    float value[width] = {};
    if (row < from.count) {
      const T* source = from.data + row * from.stride + column;
      if (from.vectors) {
        if (column < from.width) load(value, source);
      } else {
#pragma unroll
        for (int e = 0; e < width; ++e) {
          if (column + e < from.width) value[e] = widen(source[e]);
        }
      }
    }
    store(to + row * kHeadStride<D> + column, value);
  }
}

__device__ inline float4 read4(const float* from) { return *reinterpret_cast<const float4*>(from); }

// scores[i][j] = left row (y + 16 i) times right row (x + 16 j), over `depth` columns (whole 4s).
template <int D, int Each>
__device__ void multiply_heads(float (&scores)[Each][Each], const float* left, const float* right,
                               int depth) {
#pragma unroll
  for (int i = 0; i < Each; ++i) {
#pragma unroll
    for (int j = 0; j < Each; ++j) scores[i][j] = 0;
  }
  const float* l = left + tile_y() * kHeadStride<D>;
  const float* r = right + tile_x() * kHeadStride<D>;
#pragma unroll 4
  for (int k = 0; k < depth; k += 4) {
    float4 a[Each], b[Each];
#pragma unroll
    for (int e = 0; e < Each; ++e) {
      a[e] = read4(l + e * kTileSide * kHeadStride<D> + k);
      b[e] = read4(r + e * kTileSide * kHeadStride<D> + k);
    }
#pragma unroll
    for (int i = 0; i < Each; ++i) {
#pragma unroll
      for (int j = 0; j < Each; ++j) {
        float sum = scores[i][j];
        sum = fmaf(a[i].x, b[j].x, sum);
        sum = fmaf(a[i].y, b[j].y, sum);
        sum = fmaf(a[i].z, b[j].z, sum);
        scores[i][j] = fmaf(a[i].w, b[j].w, sum);
      }
    }
  }
}

// A thread's part of a tile with a head's width.
template <int D, int Each>
struct HeadTile {
  static constexpr int kPacks = D / 64;
  float at[Each][kPacks][4] = {};

  // Adds scores (Tile x Tile, kScoreStride) times rows (Tile x D).
  template <int Tile>
  __device__ void add(const float* scores, const float* rows) {
    const float* s = scores + tile_y() * kScoreStride<Tile>;
    const float* r = rows + tile_x() * 4;
#pragma unroll 2
    for (int t = 0; t < Tile; t += 4) {
      float weight[Each][4];
#pragma unroll
      for (int i = 0; i < Each; ++i) {
        load(weight[i], s + i * kTileSide * kScoreStride<Tile> + t);
      }
#pragma unroll
      for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int p = 0; p < kPacks; ++p) {
          float value[4];
          load(value, r + (t + u) * kHeadStride<D> + p * 64);
#pragma unroll
          for (int i = 0; i < Each; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              at[i][p][e] = fmaf(weight[i][u], value[e], at[i][p][e]);
            }
          }
        }
      }
    }
  }

  // Writes row y + 16 i, times `factor`, to `row` (the head's first column), `width` columns.
  template <class T>
  __device__ void write(T* row, int i, float factor, int width) const {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = tile_x() * 4 + p * 64 + e;
        if (column < width) row[column] = narrow<T>(at[i][p][e] * factor);
      }
    }
  }
};

// Which keys a query at a position sees: those up to it, of which only the last `window` where
// there is one. `Windowed` is known when a kernel is compiled, so that plain masks cost nothing
// more.
template <bool Windowed>
__device__ bool sees(std::int64_t position, std::int64_t key, std::int64_t window) {
  if constexpr (Windowed) return key <= position && key > position - window;
  return key <= position;
}

// Where the walk over keys starts for a tile of queries whose first is at `position`: the start of
// the tile of Tile keys that has the first key which that query sees.
template <int Tile, bool Windowed>
__device__ std::int64_t first_tile(std::int64_t position, std::int64_t window) {
  if constexpr (Windowed) {
    const std::int64_t key = position - window + 1;
    return key <= 0 ? 0 : key / Tile * Tile;
  }
  return 0;
}

// Over the 16 threads that share rows: lanes of one half of a warp.
__device__ inline float row_max(float value) {
#pragma unroll
  for (int lane = kTileSide / 2; lane > 0; lane /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, lane));
  }
  return value;
}
__device__ inline float row_sum(float value) {
#pragma unroll
  for (int lane = kTileSide / 2; lane > 0; lane /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, lane);
  }
  return value;
}

}  // namespace ebb::kernels::cuda_model
