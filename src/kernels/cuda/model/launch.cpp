#include "kernels/cuda/model/launch.h"

#include <algorithm>
#include <limits>
#include <string>

#include "ebb/error.h"

namespace ebb::kernels::cuda_model {
namespace {

constexpr unsigned kRowThreads = 256;
constexpr std::int64_t kWarp = 32;
constexpr Bytes kPlainSharedBytes = 48 * kKiB;
constexpr Bytes kMostSharedBytes = 227 * kKiB;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw DeviceError(std::string(what) + ": CUDA says " + cudaGetErrorName(status) + " (" +
                    cudaGetErrorString(status) + ")");
}

unsigned row_threads(std::int64_t cols, int width, unsigned most) {
  const std::int64_t warps = std::max<std::int64_t>(1, ceil_div(ceil_div(cols, width), kWarp));
  return static_cast<unsigned>(std::min<std::int64_t>(warps * kWarp, most));
}

unsigned grid_size(std::int64_t blocks, const char* what) {
  if (blocks > std::numeric_limits<int>::max()) {
    throw Error(std::string(what) + ": " + std::to_string(blocks) +
                " blocks are more than a CUDA grid has; use smaller batches");
  }
  return static_cast<unsigned>(blocks);
}

void allow_shared(const void* kernel, Bytes bytes, const char* what) {
  if (bytes > kMostSharedBytes) {
    throw Error(std::string(what) + ": a block would need " + std::to_string(bytes) +
                " bytes of shared memory and has " + std::to_string(kMostSharedBytes) +
                "; the rows are too long for this kernel");
  }
  if (bytes <= kPlainSharedBytes) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(bytes)),
        what);
}

RowGrid row_grid(std::int64_t rows, std::int64_t cols, int width) {
  RowGrid grid;
  const std::int64_t blocks = ceil_div(cols, static_cast<std::int64_t>(kRowThreads) * width);
  grid.threads = row_threads(ceil_div(cols, blocks), width, kRowThreads);
  grid.blocks_per_row = grid_size(blocks, "row_grid");
  grid.blocks = grid_size(blocks * rows, "row_grid");
  return grid;
}

bool can_vectorize(const void* data, std::int64_t stride, Bytes element_bytes, std::int64_t cols,
                   int width) {
  return reinterpret_cast<std::uintptr_t>(data) % kVectorBytes == 0 &&
         stride * element_bytes % kVectorBytes == 0 && cols % width == 0;
}

}  // namespace ebb::kernels::cuda_model
