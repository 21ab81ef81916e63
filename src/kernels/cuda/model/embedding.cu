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
                           float scale, std::int64_t cols, unsigned blocks_per_row) {
  const std::int64_t row = blockIdx.x / blocks_per_row;
  const std::int64_t j =
      (static_cast<std::int64_t>(blockIdx.x % blocks_per_row) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  const T* const from = table.row(ids[row]) + j;
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
constexpr int kColumns = 4;  // of a thread, kThreads apart

// Whether ids[0 .. row) has ids[row]. The same answer in every thread.
__device__ bool has_earlier(const std::int32_t* ids, std::int64_t row, std::int32_t id) {
  for (std::int64_t base = 0; base < row; base += kWindow) {
    int found = 0;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const std::int64_t i = base + round * kThreads + threadIdx.x;
      if (i < row && ids[i] == id) found = 1;
    }
    if (__syncthreads_or(found) != 0) return true;
  }
  return false;
}

// The block of an id's first row adds all rows of that id, in their order; the blocks of later rows
// have nothing to do. No scratch and no atomics; a batch of one single id is the slowest case, as
// one chain of additions a column is what the order asks for.
template <class T>
__global__ void embed_backward_rows(Matrix<float> sums, Matrix<const T> dy, const std::int32_t* ids,
                                    float scale, std::int64_t rows, std::int64_t cols) {
  __shared__ unsigned masks[kRounds * kWarps];
  __shared__ int matches[kWindow];  // offsets from the window's start, ascending
  const std::int64_t row = blockIdx.x;
  const std::int32_t id = ids[row];
  if (has_earlier(ids, row, id)) return;

  const std::int64_t first =
      static_cast<std::int64_t>(blockIdx.y) * kThreads * kColumns + threadIdx.x;
  float sum[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const std::int64_t j = first + c * kThreads;
    sum[c] = j < cols ? sums.row(id)[j] : 0.0f;
  }
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (std::int64_t base = row; base < rows; base += kWindow) {
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
    for (int k = 0; k < count; ++k) {
      const T* from = dy.row(base + matches[k]);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const std::int64_t j = first + c * kThreads;
        // Rounded before it is added: not fused.
        if (j < cols) sum[c] += __fmul_rn(cuda_model::widen(from[j]), scale);
      }
    }
    // The next window's masks are written only after every thread is past its reads of these
    // (the barrier above); its matches only after the barrier behind those masks.
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const std::int64_t j = first + c * kThreads;
    if (j < cols) sums.row(id)[j] = sum[c];
  }
}

}  // namespace

void CudaModelOps::embed(View out, ConstView table, std::span<const std::int32_t> ids,
                         float scale) {
  if (out.rows == 0 || out.cols == 0) return;
  with_element(out.type, [&]<class T>(T) {
    constexpr int width = 16 / sizeof(T);
    const auto launch = [&]<int N>(std::integral_constant<int, N>) {
      const cuda_model::RowGrid grid = cuda_model::row_grid(out.rows, out.cols, N);
      embed_rows<T, N><<<grid.blocks, grid.threads, 0, stream_>>>(
          cuda_model::in<T>(out), cuda_model::in<T>(table), ids.data(), scale, out.cols,
          grid.blocks_per_row);
    };
    const bool vectors = cuda_model::can_vectorize(out, out.cols, width) &&
                         cuda_model::can_vectorize(table, out.cols, width);
    vectors ? launch(std::integral_constant<int, width>{})
            : launch(std::integral_constant<int, 1>{});
  });
  cuda_model::check_launch("embed");
}

void CudaModelOps::embed_backward(View sums, ConstView dy, std::span<const std::int32_t> ids,
                                  float scale) {
  if (dy.rows == 0 || dy.cols == 0) return;
  constexpr std::int64_t columns = kThreads * kColumns;
  const auto column_blocks = static_cast<unsigned>((dy.cols + columns - 1) / columns);
  with_element(dy.type, [&]<class T>(T) {
    embed_backward_rows<<<dim3(cuda_model::grid_size(dy.rows, "embed_backward"), column_blocks),
                          kThreads, 0, stream_>>>(
        cuda_model::in<float>(sums), cuda_model::in<T>(dy), ids.data(), scale, dy.rows, dy.cols);
  });
  cuda_model::check_launch("embed_backward");
}

}  // namespace ebb::kernels
