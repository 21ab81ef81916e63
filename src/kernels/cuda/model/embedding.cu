// Rows of a table by index, and the gradient that goes back into them.
#include "kernels/cuda/model/cuda_model_ops.h"
#include "kernels/cuda/model/elements.cuh"
#include "kernels/cuda/model/launch.h"
#include "kernels/element_dispatch.h"

namespace ebb::kernels {
namespace {

using cuda_model::Matrix;

template <class T, int N>
__global__ void embed_rows(Matrix<T> out, Matrix<const T> table, const std::int32_t* ids,
                           float scale, std::int64_t first, std::int64_t table_rows,
                           std::int64_t cols, unsigned blocks_per_row) {
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t j =
      (static_cast<std::int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  const std::int64_t its = ids[row] - first;
  if (its < 0 || its >= table_rows) return;
  const T* const from = table.row(its) + j;
  if (scale == 1.0f) {  // a copy, to the bit
    using Moved = cuda_model::Pack<T, N>;
    *reinterpret_cast<Moved*>(out.row(row) + j) = *reinterpret_cast<const Moved*>(from);
    return;
  }
  float value[N];
  cuda_model::load(value, from);
#pragma unroll
  for (int e = 0; e < N; ++e) value[e] *= scale;
  cuda_model::store(out.row(row) + j, value);
}

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kRounds = 4;  // ids that a thread looks at between two barriers
constexpr int kWindow = kThreads * kRounds;

// Links of a row to the other rows with its id.
constexpr std::int32_t kEarlier = -2;  // an earlier row: that one's block adds them all
constexpr std::int32_t kAlone = -1;    // nothing; else the next row with this id

constexpr int kLanes = 4;  // threads that look for one row's id
constexpr int kLinkedRows = kThreads / kLanes;

// The links of a block's rows. Every id is compared with every other: 16,384 of them in 67 us on an
// H200.
__global__ void link_rows(std::int32_t* links, const std::int32_t* ids, int rows) {
  __shared__ __align__(16) std::int32_t tile[kWindow];
  const int row =
      static_cast<int>(blockIdx.x) * kLinkedRows + static_cast<int>(threadIdx.x) / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const std::int32_t id = row < rows ? ids[row] : -1;
  bool earlier = false;
  int next = rows;
  for (int base = 0; base < rows; base += kWindow) {
    __syncthreads();
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int at = round * kThreads + static_cast<int>(threadIdx.x);
      tile[at] = base + at < rows ? ids[base + at] : -1;
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 4 * lane; k < kWindow; k += 4 * kLanes) {
      const int4 four = *reinterpret_cast<const int4*>(tile + k);
      if (four.x != id && four.y != id && four.z != id && four.w != id) continue;
      const std::int32_t found[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (found[e] != id) continue;
        earlier |= base + k + e < row;
        if (base + k + e > row) next = min(next, base + k + e);
      }
    }
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    earlier |= __shfl_xor_sync(0xffffffffu, earlier, distance) != 0;
    next = min(next, __shfl_xor_sync(0xffffffffu, next, distance));
  }
  if (row < rows && lane == 0) links[row] = earlier ? kEarlier : next == rows ? kAlone : next;
}

// The block of an id's first row adds all rows of that id, in their order; the blocks of later rows
// have nothing to do. No atomics; a batch of one single id is the slowest case, as one chain of
// additions a column is what the order asks for.
template <class T, int N>
__global__ void embed_backward_rows(Matrix<float> sums, Matrix<const T> dy, const std::int32_t* ids,
                                    const std::int32_t* links, float scale, std::int64_t first,
                                    std::int64_t sum_rows, std::int64_t rows, std::int64_t cols) {
  __shared__ unsigned masks[kRounds * kWarps];
  __shared__ int matches[kWindow];  // offsets from the window's start, ascending
  const std::int64_t row = blockIdx.x;
  const std::int32_t link = links[row];
  if (link == kEarlier) return;
  const std::int32_t id = ids[row];
  const std::int64_t its = id - first;
  if (its < 0 || its >= sum_rows) return;
  const std::int64_t j = (static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x) * N;
  const bool mine = j < cols;
  float sum[N] = {};
  if (mine) cuda_model::load(sum, sums.row(its) + j);
  const auto add = [&](std::int64_t from) {
    if (!mine) return;
    float value[N];
    cuda_model::load(value, dy.row(from) + j);
#pragma unroll
    // Rounded before it is added: not fused.
    for (int e = 0; e < N; ++e) sum[e] = __fadd_rn(sum[e], __fmul_rn(value[e], scale));
  };
  add(row);
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (std::int64_t base = link == kAlone ? rows : link; base < rows; base += kWindow) {
    bool match[kRounds];
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const std::int64_t i = base + round * kThreads + threadIdx.x;
      match[round] = i < rows && ids[i] == id;
      const unsigned mask = __ballot_sync(0xffffffffu, match[round]);
      if (lane == 0) masks[round * kWarps + warp] = mask;
    }
    __syncthreads();
    int count = 0;
    int before[kRounds] = {};  // matches ahead of this warp's in each round
    for (int k = 0; k < kRounds * kWarps; ++k) {
#pragma unroll
      for (int round = 0; round < kRounds; ++round) {
        if (k == round * kWarps + static_cast<int>(warp)) before[round] = count;
      }
      count += __popc(masks[k]);
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      if (match[round]) {
        const unsigned lower = masks[round * kWarps + warp] & ((1u << lane) - 1u);
        matches[before[round] + __popc(lower)] = round * kThreads + static_cast<int>(threadIdx.x);
      }
    }
    __syncthreads();
#pragma unroll 4
    for (int k = 0; k < count; ++k) add(base + matches[k]);
    // The next window's masks are written only after every thread is past its reads of these
    // (the barrier above); its matches only after the barrier behind those masks.
  }
  if (mine) cuda_model::store(sums.row(its) + j, sum);
}

}  // namespace

void CudaModelOps::embed(View out, ConstView table, std::span<const std::int32_t> ids, float scale,
                         std::int64_t first) {
  if (out.rows == 0 || out.cols == 0) return;
  with_element(out.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      const cuda_model::RowGrid grid = cuda_model::row_grid(out.rows, out.cols, N);
      embed_rows<T, N><<<grid.blocks, grid.threads, 0, stream_>>>(
          cuda_model::in<T>(out), cuda_model::in<T>(table), ids.data(), scale, first, table.rows,
          out.cols, grid.blocks_per_row);
    };
    const bool vectors = cuda_model::can_vectorize(out, out.cols, width) &&
                         cuda_model::can_vectorize(table, out.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("embed");
}

void CudaModelOps::embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids,
                                  float scale, std::int64_t first) {
  if (dy.rows == 0 || dy.cols == 0) return;
  auto* const links = reinterpret_cast<std::int32_t*>(scratch(dy.rows * 4, "embed_backward"));
  link_rows<<<cuda_model::grid_size((dy.rows + kLinkedRows - 1) / kLinkedRows, "embed_backward"),
              kThreads, 0, stream_>>>(links, ids.data(), static_cast<int>(dy.rows));
  with_element(dy.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      constexpr std::int64_t columns = kThreads * N;
      const auto column_blocks = static_cast<unsigned>((dy.cols + columns - 1) / columns);
      embed_backward_rows<T, N>
          <<<dim3(cuda_model::grid_size(dy.rows, "embed_backward"), column_blocks), kThreads, 0,
             stream_>>>(cuda_model::in<float>(sums), cuda_model::in<T>(dy), ids.data(), links,
                        scale, first, sums.rows, dy.rows, dy.cols);
    };
    const bool vectors = cuda_model::can_vectorize(dy, dy.cols, width) &&
                         cuda_model::can_vectorize(sums, dy.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("embed_backward");
}

}  // namespace ebb::kernels
