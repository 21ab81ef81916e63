#include "device/cuda/cuda_stream.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "base/to_size.h"
#include "device/cuda/check.h"
#include "device/cuda/cuda_event.h"
#include "device/cuda/pause.h"
#include "device/cuda/small_copy.h"
#include "ebb/error.h"

namespace ebb::device {
namespace {

void make_wait(cudaStream_t stream, Event& event, std::string_view name) {
  if (auto* of_gpu = dynamic_cast<CudaEvent*>(&event)) return of_gpu->make_wait(stream);
  if (auto* of_host = dynamic_cast<CudaHostEvent*>(&event)) return of_host->make_wait(stream);
  throw DeviceError(fmt::format("stream '{}': waits for an event of another device", name));
}

void make_record(cudaStream_t stream, Event& event, std::string_view name) {
  auto* of_gpu = dynamic_cast<CudaEvent*>(&event);
  if (of_gpu == nullptr) {
    throw DeviceError(
        fmt::format("stream '{}': records an event that another kind of stream records", name));
  }
  of_gpu->record(stream);
}

}  // namespace

CudaStream::CudaStream(int device, const RegisteredMemory& memory, CudaClock& clock,
                       StreamKind kind, std::string name)
    : device_(device),
      memory_(memory),
      clock_(clock),
      by_kernel_((kind == StreamKind::compute || kind == StreamKind::express) &&
                 can_copy_small(device)),
      name_(std::move(name)) {
  check(cudaSetDevice(device_), "cudaSetDevice");
  stream_ = make_stream(kind == StreamKind::express);
}

CudaStream::~CudaStream() { static_cast<void>(cudaStreamSynchronize(handle())); }

void CudaStream::submit(std::function<void()> work, Interval* ran) {
  check(cudaSetDevice(device_), "cudaSetDevice");
  collect_brackets();
  Bracket bracket = take_bracket();
  bracket.ran = ran;
  if (ran != nullptr) bracket.base = clock_.instant();
  check(cudaEventRecord(bracket.start.get(), handle()), "cudaEventRecord");
  work();
  check(cudaEventRecord(bracket.stop.get(), handle()), "cudaEventRecord");
  running_.push_back(std::move(bracket));
}

void CudaStream::wait(Event& event) {
  check(cudaSetDevice(device_), "cudaSetDevice");  // the driver's own functions want a context
  make_wait(handle(), event, name_);
}

void CudaStream::record(Event& event) { make_record(handle(), event, name_); }

void CudaStream::synchronize() {
  check(cudaStreamSynchronize(handle()), "cudaStreamSynchronize");
  collect_brackets();
}

RegisteredRange CudaStream::require_known(const void* at, Bytes bytes, const char* what) const {
  if (const auto range = memory_.find(at, bytes)) return *range;
  throw DeviceError(
      fmt::format("stream '{}': {} {} bytes that are in no buffer of this device: what is not "
                  "pinned cannot be copied asynchronously",
                  name_, what, bytes));
}

void CudaStream::copy(void* to, const void* from, Bytes bytes) {
  if (bytes == 0) return;
  const RegisteredRange target = require_known(to, bytes, "a copy writes");
  const RegisteredRange source = require_known(from, bytes, "a copy reads");
  if (!target.on_device && !source.on_device) {
    throw DeviceError(
        fmt::format("stream '{}': a copy of {} bytes within host memory; the host lane makes those",
                    name_, bytes));
  }
  if (by_kernel_ && target.on_device != source.on_device) {
    return launch_small_copy(to, from, bytes, handle());
  }
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const Bytes part = std::min({bytes, target.left_in_piece(out), source.left_in_piece(in)});
    check(cudaMemcpyAsync(out, in, to_size(part), cudaMemcpyDefault, handle()),
          fmt::format("cudaMemcpyAsync of {} bytes on stream '{}'", part, name_));
    out += part;
    in += part;
    bytes -= part;
  }
}

void CudaStream::pause(std::int64_t microseconds) { launch_pause(microseconds, handle()); }

void CudaStream::fill(void* to, std::uint8_t value, Bytes bytes) {
  if (bytes == 0) return;
  const RegisteredRange target = require_known(to, bytes, "a fill writes");
  auto* out = static_cast<std::byte*>(to);
  while (bytes > 0) {
    const Bytes part = std::min(bytes, target.left_in_piece(out));
    check(cudaMemsetAsync(out, value, to_size(part), handle()),
          fmt::format("cudaMemsetAsync of {} bytes on stream '{}'", part, name_));
    out += part;
    bytes -= part;
  }
}

// The driver stages what is not pinned; it takes whole ranges of either sort, so those of a buffer
// are cut at its pieces.
void CudaStream::copy_now(void* to, const void* from, Bytes bytes) {
  check(cudaSetDevice(device_), "cudaSetDevice");
  const auto target = memory_.find(to, bytes);
  const auto source = memory_.find(from, bytes);
  auto* out = static_cast<std::byte*>(to);
  const auto* in = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    Bytes part = bytes;
    if (target) part = std::min(part, target->left_in_piece(out));
    if (source) part = std::min(part, source->left_in_piece(in));
    check(cudaMemcpyAsync(out, in, to_size(part), cudaMemcpyDefault, handle()),
          fmt::format("cudaMemcpyAsync of {} bytes on stream '{}'", part, name_));
    out += part;
    in += part;
    bytes -= part;
  }
  synchronize();
}

CudaStream::Bracket CudaStream::take_bracket() {
  if (spare_.empty()) return {make_event(cudaEventDefault), make_event(cudaEventDefault), {}, {}};
  Bracket bracket = std::move(spare_.back());
  spare_.pop_back();
  return bracket;
}

// Asks, never waits.
void CudaStream::collect_brackets() {
  while (!running_.empty()) {
    Bracket& first = running_.front();
    const cudaError_t status = cudaEventQuery(first.stop.get());
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // or the next launch would be taken for a failure
      return;
    }
    check(status, "cudaEventQuery");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, first.start.get(), first.stop.get()),
          "cudaEventElapsedTime");
    busy_seconds_ += static_cast<double>(milliseconds) * 1e-3;
    if (first.ran != nullptr) tell(first);
    first.base.reset();
    spare_.push_back(std::move(first));
    running_.pop_front();
  }
}

// Two works may have been timed from two instants, which agree to microseconds only; they still ran
// one after the other.
void CudaStream::tell(const Bracket& bracket) {
  const Interval::Time start = std::max(bracket.base->time_of(bracket.start.get()), told_until_);
  told_until_ = std::max(bracket.base->time_of(bracket.stop.get()), start);
  *bracket.ran = {start, told_until_};
}

double CudaStream::busy_seconds() {
  collect_brackets();
  return busy_seconds_;
}

// The thread may have another device than ours, or none yet.
void CudaForeignStream::record(Event& event) {
  check(cudaSetDevice(device_), "cudaSetDevice");
  make_record(stream_, event, "the caller's");
}

void CudaForeignStream::wait(Event& event) {
  check(cudaSetDevice(device_), "cudaSetDevice");
  make_wait(stream_, event, "the caller's");
}

}  // namespace ebb::device
