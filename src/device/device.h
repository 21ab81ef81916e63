// The device room: memory that computes, and the streams and events that order work on it. It knows
// no arithmetic and no plan. Backends are folders: cpu/, and cuda/ or no_cuda/, which stands for it
// in a build without.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "ebb/units.h"

namespace ebb::device {

// What a stream is for: kernels, copies over the link, small copies that must not wait behind
// those, or work of the CPU. On a GPU all but the last are queues of the driver and that is a
// thread; on the cpu device all are threads.
enum class StreamKind : std::uint8_t { compute, copy, express, host };

// A point in a stream's order. Recording it again moves it. Records are numbered from 1, so that a
// waiter can say which one: an event is recorded again while others still wait for the record
// before.
class Event {
 public:
  virtual ~Event() = default;
  // The last record's number, or 0. From the thread that records.
  virtual std::uint64_t ticket() = 0;
  // Blocks the calling thread until everything before that record has ended; 0 is past. Throws what
  // made the recording stream fail.
  virtual void wait_for(std::uint64_t ticket) = 0;
  void synchronize() { wait_for(ticket()); }
};

// When work ran, on the steady clock, whichever clock measured it. Those of one stream do not
// overlap; those of streams with other clocks agree to some tens of microseconds.
struct Interval {
  using Time = std::chrono::steady_clock::time_point;
  Time start{};
  Time stop{};
};

// Runs what is submitted to it in order, beside other streams. Calls come from one thread at a
// time.
class Stream {
 public:
  virtual ~Stream() = default;

  // `work` is called once, on a thread of the stream's choosing, when all before it has ended or
  // (on a device that queues by itself) been queued; inside it, copy() and kernels of this stream
  // run in order. It must not throw.
  //
  // `ran` is told when that was, waits before it left out: at the latest when a synchronize() of
  // the stream has returned without throwing. Until then it is the stream's; null: nobody asks.
  virtual void submit(std::function<void()> work, Interval* ran) = 0;
  void submit(std::function<void()> work) { submit(std::move(work), nullptr); }
  // What is submitted later starts after the event's last record, as of this call.
  virtual void wait(Event& event) = 0;
  virtual void record(Event& event) = 0;
  // Blocks the calling thread until the stream is empty; throws what made it fail. A stream that
  // failed skips the work that was behind.
  virtual void synchronize() = 0;

  // Inside work only. Both ranges are in buffers of this device (a copy from other memory would not
  // be asynchronous, so a GPU refuses it with DeviceError) and do not overlap.
  virtual void copy(void* to, const void* from, Bytes bytes) = 0;
  // Inside work only. Sets every byte of a range that is in a buffer of this device.
  virtual void fill(void* to, std::uint8_t value, Bytes bytes) = 0;
  // Inside work only. What comes after it starts so much later; for tests of ordering.
  virtual void pause(std::int64_t microseconds) = 0;
  // Outside of work: a copy behind all that was submitted, done on return, from and to any memory.
  virtual void copy_now(void* to, const void* from, Bytes bytes) = 0;

  // How long work has run that has ended, waits for events left out.
  virtual double busy_seconds() = 0;
};

// A stream that the caller of the library made and keeps: on a GPU a queue of the driver. The cpu
// device's callers have none; there it is the calling thread itself.
class ForeignStream {
 public:
  virtual ~ForeignStream() = default;
  // The point that the foreign work has come to. The event is one that compute streams record.
  virtual void record(Event& event) = 0;
  // What is queued there later starts after the event's last record, as of this call; on the cpu
  // device the thread blocks until then.
  virtual void wait(Event& event) = 0;
};

// Memory that is given back with the object. Not initialised beyond what the system does.
class Buffer {
 public:
  virtual ~Buffer() = default;
  std::byte* data() const { return data_; }
  Bytes bytes() const { return bytes_; }

 protected:
  std::byte* data_ = nullptr;
  Bytes bytes_ = 0;
};

// Outlives its streams, events and buffers.
class Device {
 public:
  virtual ~Device() = default;
  virtual std::string kind() const = 0;         // "cpu", "cuda"
  virtual std::string name() const = 0;         // what a person would call it
  virtual std::string description() const = 0;  // a few lines: what it is and has
  // What the machine has for the device tier and for the host tier, by default.
  virtual Bytes device_memory() const = 0;
  virtual Bytes host_memory() const = 0;

  // Whether a stream may hold up the thread that submits to it, as a driver's queue does when it is
  // full.
  virtual bool holds_up() const { return false; }
  virtual std::unique_ptr<Stream> create_stream(StreamKind kind, std::string name) = 0;
  // An event that streams of this kind record; streams of any kind of this device can wait for it.
  virtual std::unique_ptr<Event> create_event(StreamKind recorder) = 0;
  // Exact sizes; throws DeviceError that says how much was wanted.
  virtual std::unique_ptr<Buffer> allocate_device(Bytes bytes) = 0;
  virtual std::unique_ptr<Buffer> allocate_host(Bytes bytes) = 0;

  // What callers of a library bring along; they keep it for as long as these objects live. `handle`
  // is a cudaStream_t, null for the default stream; the cpu device looks at none.
  virtual std::unique_ptr<ForeignStream> adopt_stream(void* handle) = 0;
  // Memory of the device tier, of which no byte is adopted twice at a time: streams may then copy
  // from and to it. Throws ConfigError where it is not this device's.
  virtual std::unique_ptr<Buffer> adopt_device_memory(void* data, Bytes bytes) = 0;
};

// "cpu", "cuda", or "auto" for a GPU where there is one. Throws ConfigError for what this build
// does not have, DeviceError for what the machine does not have.
std::unique_ptr<Device> create_device(const std::string& kind);

}  // namespace ebb::device
