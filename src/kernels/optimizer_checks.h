// What every implementation of OptimizerOps refuses before it touches memory.
#pragma once

#include <fmt/format.h>

#include "base/dtype.h"
#include "ebb/error.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

inline void check_float_type(DType type, const char* what) {
  if (type == DType::f32 || type == DType::bf16) return;
  throw ConfigError(
      fmt::format("optimizer ops: {} is {}, expected fp32 or bf16", what, name_of(type)));
}

inline void check_span(const StateSpan& span) {
  check_float_type(span.weight_type, "the weight");
  check_float_type(span.gradient_type, "the gradient");
  if (span.count > 0 && (span.low != nullptr) != (span.weight_type == DType::bf16)) {
    throw ConfigError(fmt::format("optimizer ops: {} weights {} a low half",
                                  name_of(span.weight_type),
                                  span.low == nullptr ? "need" : "take no"));
  }
}

}  // namespace ebb::kernels
