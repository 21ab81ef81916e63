#include "measure/probe/random_values.h"

#include <algorithm>
#include <vector>

#include "base/rng.h"
#include "base/to_size.h"

namespace ebb::measure {

void fill_with_random_values(device::Stream& stream, std::byte* to, Bytes bytes, DType type) {
  constexpr Bytes piece = 4 * kMiB;
  std::vector<std::byte> values(to_size(piece));
  const CounterRng random(1, 0);
  const std::int64_t count = piece / size_of(type);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value =
        static_cast<float>(0.04 * random.uniform(static_cast<std::uint64_t>(i)) - 0.02);
    if (type == DType::f32) reinterpret_cast<float*>(values.data())[i] = value;
    if (type == DType::bf16) reinterpret_cast<bf16*>(values.data())[i] = to_bf16(value);
  }
  for (Bytes at = 0; at < bytes; at += piece) {
    stream.copy_now(to + at, values.data(), std::min(piece, bytes - at));
  }
}

}  // namespace ebb::measure
