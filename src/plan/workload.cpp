#include "plan/workload.h"

namespace ebb::plan {

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  narrow_flops += other.narrow_flops;
  attention_flops += other.attention_flops;
  attention_backward_flops += other.attention_backward_flops;
  pass_bytes += other.pass_bytes;
  bytes += other.bytes;
  calls += other.calls;
  return *this;
}

Cost& Cost::operator-=(const Cost& other) {
  flops -= other.flops;
  narrow_flops -= other.narrow_flops;
  attention_flops -= other.attention_flops;
  attention_backward_flops -= other.attention_backward_flops;
  pass_bytes -= other.pass_bytes;
  bytes -= other.bytes;
  calls -= other.calls;
  return *this;
}

std::int64_t Workload::parameters() const {
  std::int64_t total = 0;
  for (const Block& block : blocks) total += block.parameters;
  return total;
}

Bytes Workload::state_bytes(std::int64_t count) const {
  Bytes total = 0;
  for (const StatePlane& plane : state_planes) {
    total = (total + 63) / 64 * 64 + (count + plane.per - 1) / plane.per * plane.bytes;
  }
  return total;
}

Bytes Workload::sum_bytes() const {
  return micro_batches == 1 ? 0 : micro_batches == 2 ? gradient_bytes : 4;
}

}  // namespace ebb::plan
