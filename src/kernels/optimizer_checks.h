// What every implementation of OptimizerOps refuses before it touches memory. All throw
// ConfigError: a library's caller may have made the span.
#pragma once

#include <fmt/format.h>

#include <span>
#include <variant>

#include "base/dtype.h"
#include "ebb/error.h"
#include "kernels/optimizer_ops.h"

namespace ebb::kernels {

inline void check_float_type(DType type, const char* what) {
  if (type == DType::f32 || type == DType::bf16) return;
  throw ConfigError(
      fmt::format("optimizer ops: {} is {}, expected fp32 or bf16", what, name_of(type)));
}

inline void check_span(const StateSpan& span, const Step& step) {
  check_float_type(span.weight_type, "the weight");
  check_float_type(span.gradient_type, "the gradient");
  if (span.format != StateFormat::exact && !std::holds_alternative<AdamWStep>(step)) {
    throw ConfigError(
        fmt::format("optimizer ops: the {} format is for AdamW; other rules keep "
                    "their moments exact",
                    name_of(span.format)));
  }
  // An empty span may have no pointers.
  if (span.count <= 0) return;
  if ((span.low != nullptr) != (span.weight_type == DType::bf16)) {
    throw ConfigError(fmt::format("optimizer ops: {} weights {} a low half",
                                  name_of(span.weight_type),
                                  span.low == nullptr ? "need" : "take no"));
  }
  if ((span.second != nullptr) != (moments_of(step) == 2)) {
    throw ConfigError(fmt::format("optimizer ops: the rule keeps {} moments, the span has {}",
                                  moments_of(step), span.second == nullptr ? 1 : 2));
  }
  if ((span.scales != nullptr) != (span.format == StateFormat::int8)) {
    throw ConfigError(fmt::format("optimizer ops: the {} format {} scales", name_of(span.format),
                                  span.scales == nullptr ? "needs" : "takes no"));
  }
  if (span.format != StateFormat::exact && span.first_element % kStateBlock != 0) {
    throw ConfigError(
        fmt::format("optimizer ops: a span of the {} format starts at element {} of "
                    "its tensor, expected a multiple of {}",
                    name_of(span.format), span.first_element, kStateBlock));
  }
}

inline void check_spans(std::span<const SpanUpdate> updates) {
  for (const auto& [span, step] : updates) check_span(span, step);
}

}  // namespace ebb::kernels
