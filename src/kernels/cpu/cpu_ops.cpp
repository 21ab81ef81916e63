#include "kernels/cpu/cpu_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ebb/error.h"
#include "kernels/cpu/rows.h"

namespace ebb::kernels {
namespace {

constexpr std::int64_t kJobElements = 16 * 1024;
constexpr std::int64_t kJobColumns = 64;
constexpr Bytes kCacheLine = 64;

}  // namespace

CpuOps::CpuOps(ThreadPool& pool, bool bf16_products)
    : pool_(pool), bf16_products_(bf16_products), tiles_(pool.slots()) {}

void CpuOps::for_rows(std::int64_t rows, std::int64_t cols,
                      FunctionRef<void(std::int64_t, std::int64_t)> body) {
  const std::int64_t step =
      std::max<std::int64_t>(1, kJobElements / std::max<std::int64_t>(1, cols));
  pool_.parallel_for((rows + step - 1) / step, [&](std::int64_t job, int) {
    body(job * step, std::min(rows, (job + 1) * step));
  });
}

void CpuOps::for_columns(std::int64_t cols, FunctionRef<void(std::int64_t, std::int64_t)> body) {
  pool_.parallel_for((cols + kJobColumns - 1) / kJobColumns, [&](std::int64_t job, int) {
    body(job * kJobColumns, std::min(cols, (job + 1) * kJobColumns));
  });
}

Bytes CpuOps::for_all_slots(Bytes bytes) const {
  return bytes == 0 ? 0 : align_up(bytes) * pool_.slots() + kCacheLine;
}

std::byte* CpuOps::check_scratch(Bytes bytes_per_slot, const char* what) const {
  const Bytes needed = for_all_slots(bytes_per_slot);
  const auto bound = static_cast<Bytes>(scratch_.size());
  if (bound < needed) {
    throw Error(
        fmt::format("{}: the bound scratch has {} bytes and {} are needed on {} threads; "
                    "bind what {}_scratch() asks for",
                    what, bound, needed, pool_.slots(), what));
  }
  if (needed == 0) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(scratch_.data());
  return scratch_.data() + (kCacheLine - address % kCacheLine) % kCacheLine;
}

void CpuOps::sum(double* total, const float* values, std::int64_t count) {
  double result = 0;
  for (std::int64_t i = 0; i < count; ++i) result += values[i];
  *total = result;
}

void CpuOps::convert(View dst, ConstView src) {
  for_rows(dst.rows, dst.cols, [&](std::int64_t first, std::int64_t last) {
    convert_rows(rows_of(dst, first), rows_of(src, first), last - first, dst.cols);
  });
}

void CpuOps::fill_zero(void* data, Bytes bytes) {
  constexpr Bytes step = 256 * kKiB;
  pool_.parallel_for((bytes + step - 1) / step, [&](std::int64_t job, int) {
    const Bytes count = std::min(step, bytes - job * step);
    std::memset(static_cast<std::byte*>(data) + job * step, 0, static_cast<std::size_t>(count));
  });
}

}  // namespace ebb::kernels
