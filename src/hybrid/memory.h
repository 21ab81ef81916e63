// All memory of an optimizer: one piece a tier, of exact size, counted and refused before it is
// made.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/list.h"
#include "base/to_size.h"
#include "device/device.h"
#include "hybrid/chunks.h"
#include "kernels/optimizer_ops.h"
#include "memory/carver.h"
#include "memory/ledger.h"

namespace ebb::hybrid {

// Sizes and limits; without a limit a tier may take what the machine has.
struct MemoryOptions {
  Bytes window = 0;  // on the device, for streamed states; 0: room for four chunks
  std::optional<Bytes> device_limit;
  std::optional<Bytes> host_limit;
};

// Made once and never moved or grown: lanes hold its addresses. What it holds starts as the
// allocator left it.
class Memory {
 public:
  // Where a chunk's memory is. Good as long as the Memory; sites decide which are null.
  struct Home {
    std::byte* state = nullptr;  // on the device for resident, else in host memory
    // Host memory, at the host site alone: the CPU's own copies.
    std::byte* weight = nullptr;
    std::byte* gradient = nullptr;
  };

  // Throws OutOfBudget with the needs of the tier before anything is allocated, ConfigError where
  // the window holds less than two chunks (one, where only one is streamed).
  Memory(device::Device& device, const ChunkMap& map, const MemoryOptions& options);

  const Home& home(std::integral auto chunk) const { return homes_[chunk]; }
  // Places of the window, each large enough for the state of any streamed chunk.
  std::size_t slots() const { return slots_.size(); }
  std::byte* slot(std::size_t index) const { return slots_[index]; }

  // Sums of squares by norm block, as ChunkMap counts them: written by the compute lane, and copied
  // to the host's for the norm.
  double* squares() const { return squares_; }  // on the device
  double* host_squares() const { return host_squares_; }
  kernels::StepScale* scale() const { return scale_; }  // on the device
  kernels::StepScale* host_scale() const { return host_scale_; }
  std::byte* staging() const { return staging_; }  // on the host, as states::Store wants it

  std::span<std::byte> device_piece() const { return piece(*device_); }
  std::span<std::byte> host_piece() const { return piece(*host_); }

 private:
  // What a tier's bytes are for: the table of a refusal, and the ledger's entries.
  struct Line {
    std::string purpose;
    Bytes bytes;
  };
  using Books = std::vector<Line>;

  static std::span<std::byte> piece(const device::Buffer& buffer) {
    return {buffer.data(), to_size(buffer.bytes())};
  }
  void size_window(const std::vector<Chunk>& chunks, Bytes window);
  // Runs twice, with carvers that measure and with those that cut: what was reserved is what is
  // taken.
  void carve(const ChunkMap& map, memory::Carver& device, memory::Carver& host, Books& device_books,
             Books& host_books);
  static Bytes reserve(memory::Ledger& ledger, const Books& books,
                       std::vector<memory::Reservation>& to);

  Bytes slot_bytes_ = 0;
  List<Home> homes_;
  List<std::byte*> slots_;
  double* squares_ = nullptr;
  double* host_squares_ = nullptr;
  kernels::StepScale* scale_ = nullptr;
  kernels::StepScale* host_scale_ = nullptr;
  std::byte* staging_ = nullptr;
  memory::Ledger device_ledger_;
  memory::Ledger host_ledger_;
  std::vector<memory::Reservation> reservations_;
  std::unique_ptr<device::Buffer> device_;
  std::unique_ptr<device::Buffer> host_;
};

}  // namespace ebb::hybrid
