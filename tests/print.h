// How GoogleTest prints the project's types where it would show their bytes.
#pragma once

#include <ostream>

#include "base/dtype.h"
#include "kernels/update.h"
#include "kernels/weight_type.h"

namespace ebb {

inline void PrintTo(DType type, std::ostream* out) { *out << name_of(type); }

namespace kernels {

inline void PrintTo(StateFormat format, std::ostream* out) { *out << name_of(format); }
inline void PrintTo(WeightType type, std::ostream* out) { *out << name_of(type); }

}  // namespace kernels
}  // namespace ebb
