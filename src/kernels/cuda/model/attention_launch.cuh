// The common part of starting the tiled kernels.
#pragma once

#include <string>
#include <type_traits>

#include "ebb/error.h"
#include "kernels/cuda/model/launch.h"
#include "kernels/model_ops.h"

namespace ebb::kernels::cuda_model {

// Calls body with std::integral_constant<int, D>, D the width that `head_dim` is padded to.
template <class Body>
void with_head_width(std::int64_t head_dim, const Body& body) {
  if (head_dim <= 64) return body(std::integral_constant<int, 64>{});
  if (head_dim <= 128) return body(std::integral_constant<int, 128>{});
  if (head_dim <= 256) return body(std::integral_constant<int, 256>{});
  throw Error("attention: heads of " + std::to_string(head_dim) +
              " dimensions; the CUDA kernels take up to 256");
}

// Calls body with std::bool_constant: whether a window hides keys.
template <class Body>
void with_window(const AttentionShape& shape, const Body& body) {
  shape.window > 0 ? body(std::true_type{}) : body(std::false_type{});
}

// Whether rows of a head can be read in units of 16 bytes.
inline bool heads_vectorize(ConstView view, std::int64_t head_dim) {
  return can_vectorize(view, head_dim, static_cast<int>(kVectorBytes / size_of(view.type)));
}

}  // namespace ebb::kernels::cuda_model
