// A tier's memory for a run, of exact size, made before the first step. The layout says what lies
// where; it keeps the high-water mark of what tasks really touched.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "ebb/units.h"

namespace ebb::memory {

class Space {
 public:
  explicit Space(std::string name) : name_(std::move(name)) {}
  virtual ~Space() = default;

  const std::string& name() const { return name_; }
  virtual Bytes size() const = 0;

  // Any thread. Where tasks can compute on it: the address of a range. Throws Error if the range is
  // not within the space, or if it has no addresses.
  virtual std::byte* at(Bytes offset, Bytes bytes) const;
  // Where transfers alone reach it: copies from and to memory of the host, done on return. Called
  // on the thread of the lane that leads there, one call at a time a lane. `offset` and `bytes` are
  // multiples of the tier's alignment, and `memory` is aligned as much. Throws IoError.
  virtual void read(Bytes offset, void* memory, Bytes bytes);
  virtual void write(Bytes offset, const void* memory, Bytes bytes);

  // Zeros, likewise: they are written unless a space knows better.
  virtual void clear(Bytes offset, Bytes bytes);
  // Before the first of them: read() and write() will be called with this memory most of the time.
  virtual void prepare(std::byte* /*memory*/, Bytes /*bytes*/) {}

  // A device behind it has stalled, and may still write to memory that a call was made with: that
  // memory must not be used again while the process lives.
  virtual bool stalled() const { return false; }

  // A task used these bytes.
  void touch(Bytes offset, Bytes bytes);
  // The end of the highest range that was touched.
  Bytes high_water() const { return high_water_.load(std::memory_order_relaxed); }
  // Bytes of the process's memory that the system gave pages for, by whatever they were touched. It
  // knows no layout.
  virtual std::optional<Bytes> touched_bytes() const { return std::nullopt; }

 protected:
  // Throws Error if the range is not within the space.
  void require_within(Bytes offset, Bytes bytes) const;

 private:
  std::string name_;
  std::atomic<Bytes> high_water_{0};
};

}  // namespace ebb::memory
