#include "measure/bench/state_memory.h"

#include <cstring>

#include "base/rng.h"
#include "base/to_size.h"

namespace ebb::measure {
namespace {

// Every part begins at a cache line: passes go by whole lines.
Bytes whole_lines(Bytes bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// Where the parts behind the weights start, and where all ends.
struct Parts {
  Parts(const states::StateKind& kind, std::int64_t count)
      : state(whole_lines(2 * count)),
        gradient(state + whole_lines(states::state_bytes(kind, count))),
        end(gradient + whole_lines(2 * count)) {}

  Bytes state;
  Bytes gradient;
  Bytes end;
};

// Half to one and a half times `size`, of either sign: never zero or denormal, which would be
// slower or faster than real numbers.
bf16 random_value(const CounterRng& random, std::int64_t index, double size) {
  const std::uint64_t bits = random.bits(static_cast<std::uint64_t>(index));
  const double value = size * (0.5 + static_cast<double>(bits >> 11) * 0x1p-53);
  return to_bf16(static_cast<float>((bits & 1) != 0 ? value : -value));
}

}  // namespace

Bytes StateMemory::bytes(const states::StateKind& kind, std::int64_t count) {
  return Parts(kind, count).end;
}

StateMemory::StateMemory(device::Device& device, const states::StateKind& kind, std::int64_t count)
    : kind_(kind), count_(count), buffer_(device.allocate_host(bytes(kind, count))) {}

StateMemory::StateMemory(std::unique_ptr<device::Buffer> buffer, const states::StateKind& kind,
                         std::int64_t count)
    : kind_(kind), count_(count), buffer_(std::move(buffer)) {}

void StateMemory::fill(ThreadPool& pool) {
  const Parts parts(kind_, count_);
  std::byte* base = buffer_->data();
  auto* weight = reinterpret_cast<bf16*>(base);
  auto* gradient = reinterpret_cast<bf16*>(base + parts.gradient);
  const CounterRng weights(1, 0);
  const CounterRng gradients(1, 1);
  // More ranges than threads, so that a thread that is held up does not hold up the rest.
  const std::int64_t ranges = std::int64_t{16} * pool.slots();
  pool.parallel_for(ranges, [&](std::int64_t range, int) {
    for (std::int64_t i = count_ * range / ranges; i < count_ * (range + 1) / ranges; ++i) {
      weight[i] = random_value(weights, i, 0.02);
      gradient[i] = random_value(gradients, i, 1e-3);
    }
    const Bytes state = parts.gradient - parts.state;
    const Bytes from = state * range / ranges;
    std::memset(base + parts.state + from, 0, to_size(state * (range + 1) / ranges - from));
  });
}

kernels::StateSpan StateMemory::span() const {
  const Parts parts(kind_, count_);
  std::byte* base = buffer_->data();
  kernels::StateSpan span =
      states::state_span(states::planes(base + parts.state, kind_, count_), kind_, 0, count_);
  span.weight = base;
  span.gradient = base + parts.gradient;
  return span;
}

std::vector<StreamedPlane> StateMemory::planes() const {
  const Parts parts(kind_, count_);
  std::byte* base = buffer_->data();
  const auto bytes = [&](states::Plane plane) {
    return states::grain_of(plane, kind_).size_of(count_);
  };
  std::vector<StreamedPlane> all = {{.data = base, .bytes = bytes(states::Plane::weight)}};
  for (const states::Plane plane : states::state_planes(kind_)) {
    std::byte* at = base + parts.state + states::offset_of(plane, kind_, count_);
    all.push_back({.data = at, .bytes = bytes(plane)});
  }
  // Last, as passes over gradients alone ask for it there.
  all.push_back({.data = base + parts.gradient, .bytes = 2 * count_, .written = false});
  return all;
}

}  // namespace ebb::measure
