#include "exec/lanes.h"

#include <algorithm>

#include "base/rng.h"

namespace ebb::exec {

Lanes::Lanes(device::Device& device, const List<Lane>& lanes) {
  for (const Lane& lane : lanes) streams_.push_back(device.create_stream(lane.kind, lane.name));
}

void Lanes::fail(std::exception_ptr failure, std::int64_t time) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  failed_ = std::min(failed_.load(), time);
}

void Lanes::check() {
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Lanes::drain(std::int64_t time) {
  for (const auto& stream : streams_) {
    try {
      stream->synchronize();
    } catch (...) {
      fail(std::current_exception(), time);
    }
  }
  check();
}

void Lanes::clear_now(device::Stream& lane, void* to, Bytes bytes) {
  lane.submit([&lane, to, bytes] { lane.fill(to, 0, bytes); });
  lane.synchronize();
}

void pause_at_random(device::Stream& lane, std::uint64_t seed, std::uint64_t step,
                     std::uint64_t number, double share) {
  if (seed == 0) return;
  const double u = CounterRng(seed, step).uniform(number);
  if (u < share) lane.pause(static_cast<std::int64_t>(u / share * 1000));
}

}  // namespace ebb::exec
