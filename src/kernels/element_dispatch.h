// Leads from an element type known at run time to one known to the compiler.
#pragma once

#include <string>

#include "base/dtype.h"
#include "ebb/error.h"

namespace ebb::kernels {

// Calls body(T{}) with T float or bf16; other types are a caller's mistake.
template <class Body>
decltype(auto) with_element(DType type, const Body& body) {
  switch (type) {
    case DType::f32: return body(float{});
    case DType::bf16: return body(bf16{});
    default: break;
  }
  throw Error("kernels: elements must be fp32 or bf16, found " + std::string(name_of(type)));
}

}  // namespace ebb::kernels
