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

Bound<ModelOps> CpuModelLibrary::ops(const ExecutionContext& context) {
  return Bound<ModelOps>(std::in_place_type<CpuOps>, *this, context.scratch);
}

Bytes CpuModelLibrary::for_all_slots(Bytes bytes) const {
  return bytes == 0 ? 0 : align_up(bytes) * pool_.slots() + kCacheLine;
}

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

std::byte* CpuOps::check_scratch(Bytes bytes_per_slot, const char* what) const {
  const Bytes needed = library_.for_all_slots(bytes_per_slot);
  const auto given = static_cast<Bytes>(scratch_.size());
  if (given < needed) {
    throw Error(
        fmt::format("{}: the context's scratch has {} bytes and {} are needed on {} threads; "
                    "give what {}_scratch() asks for",
                    what, given, needed, pool_.slots(), what));
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
