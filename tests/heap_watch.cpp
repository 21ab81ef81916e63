#include "heap_watch.h"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<ebb::Bytes> now{0};
std::atomic<ebb::Bytes> most{0};

// An allocation takes eight bytes beside those that can be used.
ebb::Bytes size_of(void* at) { return static_cast<ebb::Bytes>(malloc_usable_size(at)) + 8; }

void* counted(void* at) {
  if (at == nullptr) throw std::bad_alloc();
  const ebb::Bytes held = now.fetch_add(size_of(at), std::memory_order_relaxed) + size_of(at);
  ebb::Bytes seen = most.load(std::memory_order_relaxed);
  while (seen < held && !most.compare_exchange_weak(seen, held, std::memory_order_relaxed)) {
  }
  return at;
}

void release(void* at) {
  if (at == nullptr) return;
  now.fetch_sub(size_of(at), std::memory_order_relaxed);
  std::free(at);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(std::malloc(std::max<std::size_t>(1, bytes)));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto grain = static_cast<std::size_t>(alignment);
  return counted(
      std::aligned_alloc(grain, (std::max<std::size_t>(1, bytes) + grain - 1) / grain * grain));
}
void operator delete(void* at) noexcept { release(at); }
void operator delete(void* at, std::size_t) noexcept { release(at); }
void operator delete(void* at, std::align_val_t) noexcept { release(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { release(at); }

namespace ebb {

bool HeapWatch::works() { return true; }
HeapWatch::HeapWatch() : start_(now.load()) { most.store(start_); }
Bytes HeapWatch::held() const { return now.load() - start_; }
Bytes HeapWatch::peak() const { return most.load() - start_; }

}  // namespace ebb
