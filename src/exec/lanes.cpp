#include "exec/lanes.h"

#include <algorithm>

namespace ebb::exec {

device::StreamKind stream_kind(const plan::LaneInfo& lane) {
  if (lane.kind == plan::LaneKind::compute) return device::StreamKind::compute;
  const bool of_device = lane.from == plan::Tier::device || lane.to == plan::Tier::device;
  if (lane.kind == plan::LaneKind::cpu || !of_device) return device::StreamKind::host;
  return lane.traffic == plan::Traffic::express ? device::StreamKind::express
                                                : device::StreamKind::copy;
}

Lanes::Lanes(device::Device& device, const plan::Topology& topology)
    : side_(device.create_stream(device::StreamKind::copy, "side")) {
  for (const plan::LaneInfo& lane : topology.lanes) {
    streams_.push_back(device.create_stream(stream_kind(lane), lane.name));
  }
}

void Lanes::fail(std::exception_ptr failure, std::int64_t time) {
  std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(failure);
  failed_ = std::min(failed_.load(), time);
}

void Lanes::drain(std::int64_t time) {
  for (const auto& stream : streams_) {
    try {
      stream->synchronize();
    } catch (...) {
      fail(std::current_exception(), time);
    }
  }
  std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

void Lanes::clear_now(void* to, Bytes bytes) {
  side_->submit([=, this] { side_->fill(to, 0, bytes); });
  side_->synchronize();
}

}  // namespace ebb::exec
