// How kernels are started: checked calls, and grids over the rows and columns of a matrix.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/model_ops.h"

namespace ebb::kernels::cuda_model {

inline constexpr Bytes kVectorBytes = 16;

// Throws DeviceError that names `what`.
void check(cudaError_t status, const char* what);
// After a launch: a configuration that the driver refused.
inline void check_launch(const char* what) { check(cudaGetLastError(), what); }

// Blocks of whole warps along x; a row takes `blocks_per_row` of them in even parts, and thread t
// of its block c has the `width` columns from (c * threads + t) * width on.
struct RowGrid {
  unsigned blocks = 0;
  unsigned threads = 0;
  unsigned blocks_per_row = 0;
};
RowGrid row_grid(std::int64_t rows, std::int64_t cols, int width);

// Threads for one block that walks a row of `cols` in steps of `width`: whole warps, at most
// `most`.
unsigned row_threads(std::int64_t cols, int width, unsigned most);

// Lets a kernel have `bytes` of dynamic shared memory (above 48 KiB it must be asked for); throws
// Error when no block has that much.
void allow_shared(const void* kernel, Bytes bytes, const char* what);

// A grid's x dimension; throws Error when the device has no such grid.
unsigned grid_size(std::int64_t blocks, const char* what);

// Whether rows can be read or written in units of 16 bytes, `width` elements a time.
bool can_vectorize(const void* data, std::int64_t stride, Bytes element_bytes, std::int64_t cols,
                   int width);
inline bool can_vectorize(ConstView view, std::int64_t cols, int width) {
  return can_vectorize(view.data, view.stride, size_of(view.type), cols, width);
}

}  // namespace ebb::kernels::cuda_model
