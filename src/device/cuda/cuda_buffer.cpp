#include "device/cuda/cuda_buffer.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/to_size.h"
#include "device/cuda/check.h"
#include "ebb/error.h"

namespace ebb::device {
namespace {

// A multiple of every page size.
constexpr Bytes kPiece = kGiB;

std::string free_on_device() {
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return "an unknown part is free";
  return fmt::format("{} of {} are free", format_bytes(static_cast<Bytes>(free)),
                     format_bytes(static_cast<Bytes>(total)));
}

std::string free_on_host() {
  const Bytes page = ::sysconf(_SC_PAGE_SIZE);
  return fmt::format("{} of {} are free", format_bytes(::sysconf(_SC_AVPHYS_PAGES) * page),
                     format_bytes(::sysconf(_SC_PHYS_PAGES) * page));
}

// The system clears a page when it is first touched. Registering memory would touch all of it on
// one thread, at a few GB/s; all threads together are as fast as memory.
void touch_pages(std::byte* data, Bytes bytes) {
  const Bytes page = ::sysconf(_SC_PAGE_SIZE);
  const int threads = static_cast<int>(std::min<Bytes>(usable_cpus(), bytes / (64 * kMiB) + 1));
  const Bytes share = (bytes / threads / page + 1) * page;
  std::vector<std::jthread> touching;
  for (Bytes first = 0; first < bytes; first += share) {
    touching.emplace_back([=] {
      const Bytes end = std::min(bytes, first + share);
      for (Bytes at = first; at < end; at += page) {
        *static_cast<volatile std::byte*>(data + at) = std::byte{0};
      }
    });
  }
}

}  // namespace

CudaBuffer::CudaBuffer(Bytes bytes, RegisteredMemory& memory) : memory_(memory) {
  bytes_ = bytes;
  if (bytes == 0) return;
  void* at = nullptr;
  const cudaError_t status = cudaMalloc(&at, to_size(bytes));
  if (status != cudaSuccess) {
    check(status, fmt::format("cudaMalloc of {} ({} bytes) of device memory, of which {}",
                              format_bytes(bytes), bytes, free_on_device()));
  }
  data_ = static_cast<std::byte*>(at);
  memory_.add({.begin = data_, .bytes = bytes, .on_device = true, .piece = bytes});
}

CudaBuffer::~CudaBuffer() {
  if (data_ == nullptr) return;
  memory_.remove(data_);
  static_cast<void>(cudaFree(data_));
}

BorrowedCudaBuffer::BorrowedCudaBuffer(void* data, Bytes bytes, int device,
                                       RegisteredMemory& memory)
    : memory_(memory) {
  data_ = static_cast<std::byte*>(data);
  bytes_ = bytes;
  for (const std::byte* byte : {data_, data_ + std::max<Bytes>(bytes, 1) - 1}) {
    cudaPointerAttributes found{};
    check(cudaPointerGetAttributes(&found, byte), "cudaPointerGetAttributes");
    if (found.type == cudaMemoryTypeDevice && found.device == device) continue;
    throw ConfigError(fmt::format(
        "{} bytes at {} are not memory of GPU {}: {}. Put them there, or choose the "
        "GPU with CUDA_VISIBLE_DEVICES",
        bytes, data, device,
        found.type == cudaMemoryTypeDevice ? fmt::format("GPU {} has them", found.device)
                                           : "they are not device memory"));
  }
  memory_.add({.begin = data_, .bytes = bytes, .on_device = true, .piece = bytes});
}

PinnedBuffer::PinnedBuffer(Bytes bytes, RegisteredMemory& memory) : memory_(memory) {
  bytes_ = bytes;
  if (bytes == 0) return;
  void* at =
      ::mmap(nullptr, to_size(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    throw DeviceError(fmt::format("cannot map {} ({} bytes) of host memory, of which {}: {}",
                                  format_bytes(bytes), bytes, free_on_host(),
                                  std::strerror(errno)));
  }
  data_ = static_cast<std::byte*>(at);
  ::madvise(at, to_size(bytes), MADV_HUGEPAGE);  // a wish; refusal is fine
  touch_pages(data_, bytes);
  while (pinned_ < bytes) {
    const Bytes part = std::min(kPiece, bytes - pinned_);
    const cudaError_t status = cudaHostRegister(data_ + pinned_, to_size(part),
                                                cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (status != cudaSuccess) {
      const std::string call = fmt::format(
          "cudaHostRegister of {} bytes at {} of {} ({} bytes) of host memory, of which {}", part,
          pinned_, format_bytes(bytes), bytes, free_on_host());
      release();
      check(status, call);
    }
    pinned_ += part;
  }
  memory_.add({.begin = data_, .bytes = bytes, .on_device = false, .piece = kPiece});
}

PinnedBuffer::~PinnedBuffer() {
  if (data_ == nullptr) return;
  memory_.remove(data_);
  release();
}

void PinnedBuffer::release() {
  for (Bytes at = 0; at < pinned_; at += kPiece) {
    static_cast<void>(cudaHostUnregister(data_ + at));
  }
  ::munmap(data_, to_size(bytes_));
}

}  // namespace ebb::device
