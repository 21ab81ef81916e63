#include "hybrid/memory.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/error.h"
#include "states/store.h"

namespace ebb::hybrid {
namespace {

// One chunk comes in while another is updated and a third goes out; the fourth evens them out.
constexpr std::int64_t kDefaultSlots = 4;
// With one place nothing could come in while a chunk is updated.
constexpr std::int64_t kFewestSlots = 2;

}  // namespace

Memory::Memory(device::Device& device, const ChunkMap& map, const MemoryOptions& options)
    : homes_(map.chunks.size()),
      device_ledger_("device", options.device_limit.value_or(device.device_memory())),
      host_ledger_("host", options.host_limit.value_or(device.host_memory())) {
  size_window(map.chunks, options.window);
  Books device_books;
  Books host_books;
  memory::Carver no_device = memory::Carver::measuring();
  memory::Carver no_host = memory::Carver::measuring();
  carve(map, no_device, no_host, device_books, host_books);
  const Bytes device_bytes = reserve(device_ledger_, device_books, reservations_);
  const Bytes host_bytes = reserve(host_ledger_, host_books, reservations_);

  device_ = device.allocate_device(device_bytes);
  host_ = device.allocate_host(host_bytes);
  memory::Carver on_device(device_->data(), device_bytes);
  memory::Carver on_host(host_->data(), host_bytes);
  carve(map, on_device, on_host, device_books, host_books);
}

void Memory::size_window(const std::vector<Chunk>& chunks, Bytes window) {
  std::int64_t streamed = 0;
  for (const Chunk& chunk : chunks) {
    if (chunk.site != Site::stream) continue;
    slot_bytes_ = std::max(slot_bytes_, chunk.state_bytes());
    ++streamed;
  }
  if (streamed == 0) return;
  const std::int64_t wanted = window == 0 ? kDefaultSlots : window / slot_bytes_;
  const std::int64_t fewest = std::min(kFewestSlots, streamed);
  if (wanted < fewest) {
    throw ConfigError(
        fmt::format("window {}: states are streamed through {} places of {} at least; give the "
                    "window {} or make chunk_parameters smaller",
                    format_bytes(window), fewest, format_bytes(slot_bytes_),
                    format_bytes(fewest * slot_bytes_)));
  }
  // More places than streamed chunks would never be used.
  slots_.resize(std::min(wanted, streamed));
}

void Memory::carve(const ChunkMap& map, memory::Carver& device, memory::Carver& host,
                   Books& device_books, Books& host_books) {
  const std::vector<Chunk>& chunks = map.chunks;
  device_books.clear();
  host_books.clear();
  // Enters what was carved since the last line. Alignment between pieces is part of it, so that the
  // lines add up to the whole.
  const auto enter = [](Books& books, const memory::Carver& carver, std::string purpose) {
    Bytes before = 0;
    for (const Line& line : books) before += line.bytes;
    books.push_back({std::move(purpose), carver.used() - before});
  };
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const bool resident = chunks[c].site == Site::resident;
    homes_[c].state = (resident ? device : host).take(chunks[c].state_bytes());
  }
  enter(device_books, device, "states that stay on the device");
  enter(host_books, host, "states that left the device");
  for (std::byte*& slot : slots_) slot = device.take(slot_bytes_);
  enter(device_books, device, fmt::format("the window, {} chunks", slots_.size()));
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (chunks[c].site != Site::host) continue;
    homes_[c].weight = host.take(chunks[c].weight_bytes());
    homes_[c].gradient = host.take(chunks[c].gradient_bytes());
  }
  enter(host_books, host, "weights and gradients that the CPU works on");
  squares_ = device.take_as<double>(map.squares);
  scale_ = device.take_as<kernels::StepScale>(1);
  enter(device_books, device, "sums of squares");
  host_squares_ = host.take_as<double>(map.squares);
  host_scale_ = host.take_as<kernels::StepScale>(1);
  enter(host_books, host, "sums of squares");
  staging_ = host.take(states::Store::kStagingBytes);
  enter(host_books, host, "staging");
}

Bytes Memory::reserve(memory::Ledger& ledger, const Books& books,
                      std::vector<memory::Reservation>& to) {
  Bytes total = 0;
  std::string table;
  for (const Line& line : books) {
    total += line.bytes;
    table += fmt::format("\n  {:>10}  {}", format_bytes(line.bytes), line.purpose);
  }
  try {
    for (const Line& line : books) to.push_back(ledger.reserve(line.purpose, line.bytes));
  } catch (const OutOfBudget& error) {
    throw OutOfBudget(
        fmt::format("{}\nThe optimizer needs {} there, {} more than the limit:{}\nRaise the limit, "
                    "or change offload_fraction, host_fraction, window or state_format.",
                    error.what(), format_bytes(total), format_bytes(total - ledger.limit()), table),
        {{error.shortfalls().at(0).tier, total, ledger.limit()}},
        {"a higher limit", "another offload_fraction, host_fraction, window or state_format"});
  }
  return total;
}

}  // namespace ebb::hybrid
