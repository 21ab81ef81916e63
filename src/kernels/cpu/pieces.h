// Cuts a call into pieces for the pool's threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

// Elements a piece: enough to make handing it out free, few enough to balance the threads. A
// multiple of the norm's and the states' blocks, so that none is cut. One piece wakes no thread.
inline constexpr std::int64_t kPiece = 8 * kNormBlock;
static_assert(kNormBlock % kStateBlock == 0);

constexpr std::int64_t pieces_of(std::int64_t count) { return (count + kPiece - 1) / kPiece; }

template <class Body>  // body(first element, number of elements)
void for_pieces(ThreadPool& pool, std::int64_t count, Body&& body) {
  pool.parallel_for(pieces_of(count), [&](std::int64_t piece, int) {
    const std::int64_t start = piece * kPiece;
    body(start, std::min(kPiece, count - start));
  });
}

inline const void* offset(const void* data, DType type, std::int64_t elements) {
  return static_cast<const std::byte*>(data) + elements * size_of(type);
}
inline void* offset(void* data, DType type, std::int64_t elements) {
  return static_cast<std::byte*>(data) + elements * size_of(type);
}

}  // namespace ebb::kernels
