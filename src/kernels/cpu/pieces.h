// Cuts a call into pieces for the pool's threads.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

// Elements of the shortest piece: enough to make handing it out free. A multiple of the norm's and
// the states' blocks, so that none is cut. One piece wakes no thread.
inline constexpr std::int64_t kPiece = 8 * kNormBlock;
static_assert(kNormBlock % kStateBlock == 0);

// Elements of a call's pieces: few enough to balance the threads, else long. A core fetches ahead
// across a piece's end, into the lines that another core is about to write; with the shortest
// pieces that cost an eighth of the update's speed.
inline std::int64_t piece_length(std::int64_t count, int threads) {
  constexpr std::int64_t kPiecesAThread = 4;
  constexpr std::int64_t kLongest = 16;
  const std::int64_t shortest = count / (kPiecesAThread * threads) / kPiece;
  return kPiece * std::clamp<std::int64_t>(shortest, 1, kLongest);
}

constexpr std::int64_t pieces_of(std::int64_t count, std::int64_t length) {
  return (count + length - 1) / length;
}

// The pieces of several runs as one call of the pool: threads that have ended a run's last piece
// start the next run's first. body(run, first element, number of elements)
template <class Runs, class Count, class Body>
void for_pieces_of(ThreadPool& pool, const Runs& runs, Count&& count_of, Body&& body) {
  std::int64_t elements = 0;
  for (const auto& run : runs) elements += count_of(run);
  const std::int64_t length = piece_length(elements, pool.slots());
  std::int64_t pieces = 0;
  for (const auto& run : runs) pieces += pieces_of(count_of(run), length);
  pool.parallel_for(pieces, [&](std::int64_t piece, int) {
    auto run = std::begin(runs);
    for (std::int64_t n; piece >= (n = pieces_of(count_of(*run), length)); ++run) piece -= n;
    const std::int64_t start = piece * length;
    body(*run, start, std::min(length, count_of(*run) - start));
  });
}

template <class Body>  // body(first element, number of elements)
void for_pieces(ThreadPool& pool, std::int64_t count, Body&& body) {
  const std::int64_t length = piece_length(count, pool.slots());
  pool.parallel_for(pieces_of(count, length), [&](std::int64_t piece, int) {
    const std::int64_t start = piece * length;
    body(start, std::min(length, count - start));
  });
}

inline const void* offset(const void* data, DType type, std::int64_t elements) {
  return static_cast<const std::byte*>(data) + elements * size_of(type);
}
inline void* offset(void* data, DType type, std::int64_t elements) {
  return static_cast<std::byte*>(data) + elements * size_of(type);
}

}  // namespace ebb::kernels
