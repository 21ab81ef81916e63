#include "fuzz/memory_meter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<ebb::Bytes> held_bytes = 0;
std::atomic<ebb::Bytes> peak_bytes = 0;

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  const ebb::Bytes held = held_bytes += static_cast<ebb::Bytes>(malloc_usable_size(memory));
  ebb::Bytes peak = peak_bytes;
  while (held > peak && !peak_bytes.compare_exchange_weak(peak, held)) {
  }
  return memory;
}

void release(void* memory) {
  if (memory != nullptr) held_bytes -= static_cast<ebb::Bytes>(malloc_usable_size(memory));
  std::free(memory);
}

void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto to = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(to, (bytes + to - 1) / to * to);
}

}  // namespace

// One byte at least: an allocation of nothing has an address too.
void* operator new(std::size_t bytes) { return counted(std::malloc(bytes + (bytes == 0))); }
void* operator new[](std::size_t bytes) { return counted(std::malloc(bytes + (bytes == 0))); }
void* operator new(std::size_t bytes, std::align_val_t to) { return counted(aligned(bytes, to)); }
void* operator new[](std::size_t bytes, std::align_val_t to) { return counted(aligned(bytes, to)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
  return operator new(bytes);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace ebb::fuzz {

MemoryMeter::MemoryMeter() {
  held_bytes = 0;
  peak_bytes = 0;
}

Bytes MemoryMeter::peak() const { return peak_bytes; }

}  // namespace ebb::fuzz
