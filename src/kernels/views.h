// Parts of matrices: views into the same memory, which must outlive them. Nothing is checked; parts
// are within the whole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "kernels/model_ops.h"

namespace ebb::kernels {

// The view, so many elements further; its shape stays.
template <class V>
V moved(V view, std::int64_t elements) {
  using Byte = std::conditional_t<std::is_same_v<V, View>, std::byte, const std::byte>;
  view.data = static_cast<Byte*>(view.data) + elements * size_of(view.type);
  return view;
}

template <class V>
V columns(V view, std::int64_t first, std::int64_t count) {
  view = moved(view, first);
  view.cols = count;
  return view;
}

template <class V>
V rows_of(V view, std::int64_t first, std::int64_t count) {
  view = moved(view, first * view.stride);
  view.rows = count;
  return view;
}

// Piece `index` of a matrix whose columns lie in pieces, each `distance` elements behind the one
// before; the last may be narrower.
template <class V>
V piece_of(const InPieces<V>& pieces, int index) {
  const std::int64_t before = index * pieces.first.cols;
  V piece = moved(pieces.first, index * pieces.distance);
  piece.cols = std::min(pieces.first.cols, pieces.cols - before);
  return piece;
}

}  // namespace ebb::kernels
