// Products with weights as they are stored, and rows of them. Rows of x are prepared first, so many
// at a time as fit into the cache beside the weights; then the weights' rows are cut into jobs.
// Where jobs and blocks of rows begin changes no bit, as a product knows its two rows alone.
#include <algorithm>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "hwy/targets.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/rows.h"
#include "kernels/reference/linear.h"

namespace ebb::kernels {
namespace {

std::int64_t round_up(std::int64_t count, std::int64_t to) { return (count + to - 1) / to * to; }

// Rows of x that are prepared at a time: few enough that they stay in a core's second cache, many
// enough that taking the weights apart is paid for.
constexpr Bytes kPreparedBytes = 4 * kMiB;
constexpr std::int64_t kMostPrepared = 256;
constexpr std::int64_t kLeastPrepared = 32;

std::int64_t rows_at_once(const Linear& call, const PreparedLayout& layout) {
  const std::int64_t fit =
      layout.row_bytes == 0 ? kMostPrepared : kPreparedBytes / layout.row_bytes;
  return std::min(call.y.rows, std::clamp(fit, kLeastPrepared, kMostPrepared));
}

// The best that the processor has of what EBB_ISA allows; null where that is only the reference.
struct Chosen {
  const LinearKernels* general = nullptr;
  const LinearKernels* pairs = nullptr;
};
Chosen chosen_kernels() {
#if HWY_ARCH_X86
  const std::int64_t targets = hwy::SupportedTargets();
  const bool avx512 = (targets & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512vnni") != 0;
  if (avx512) {
    const bool bf16 = __builtin_cpu_supports("avx512bf16") != 0;
    return {&avx512_linear_kernels(), bf16 ? &avx512_linear_kernels() : &avx2_linear_kernels()};
  }
  if ((targets & (HWY_AVX2 | HWY_AVX3)) != 0)
    return {&avx2_linear_kernels(), &avx2_linear_kernels()};
#endif
  return {};
}

// A job's weights: enough to be worth a start, few enough that all threads have several.
std::int64_t rows_a_job(const WeightMatrix& weights, int threads) {
  constexpr Bytes kLeastBytes = 64 * kKiB;
  constexpr std::int64_t kJobsAThread = 8;
  const std::int64_t least = kLeastBytes / std::max<Bytes>(1, weights.row_bytes()) + 1;
  const std::int64_t even = weights.rows / (kJobsAThread * threads) + 1;
  return round_up(std::max(least, even), kUnpackedRows);
}

void check(const Linear& call) {
  const WeightMatrix& w = call.weights;
  if (call.x.cols == w.cols && call.y.cols == w.rows && call.y.rows == call.x.rows &&
      w.cols % grain_of(w.type).per == 0) {
    return;
  }
  throw Error(fmt::format(
      "linear: x of {} x {} and weights of {} x {} in {} do not make y of {} x "
      "{}; the weights' columns must be x's, in whole blocks",
      call.x.rows, call.x.cols, w.rows, w.cols, name_of(w.type), call.y.rows, call.y.cols));
}

}  // namespace

PreparedLayout::PreparedLayout(LinearArithmetic arithmetic, const WeightMatrix& weights) {
  const std::int64_t grain = arithmetic == LinearArithmetic::eight_bits ? 256
                             : arithmetic == LinearArithmetic::pairs    ? 32
                                                                        : 16;
  cols = round_up(weights.cols, grain);
  switch (arithmetic) {
    case LinearArithmetic::floats: row_bytes = align_up(4 * cols); break;
    case LinearArithmetic::pairs: row_bytes = align_up(2 * cols); break;
    case LinearArithmetic::eight_bits:
      groups = cols / group_of(weights.type);
      scales = cols;
      sums = scales + 4 * groups;
      row_bytes = align_up(sums + 4 * groups);
      break;
  }
}

Bytes unpacked_row_bytes(LinearArithmetic arithmetic, const WeightMatrix& weights) {
  const PreparedLayout layout(arithmetic, weights);
  switch (arithmetic) {
    case LinearArithmetic::floats: return 4 * layout.cols;
    case LinearArithmetic::pairs: return 0;
    case LinearArithmetic::eight_bits: break;
  }
  return layout.cols + 8 * layout.groups;
}

Bytes cpu_linear_scratch(const Linear& call, int threads) {
  if (call.y.rows == 0 || call.y.cols == 0) return 0;
  const LinearArithmetic arithmetic = arithmetic_of(call.x.type, call.weights.type);
  const PreparedLayout layout(arithmetic, call.weights);
  const Bytes slot = align_up(kUnpackedRows * unpacked_row_bytes(arithmetic, call.weights));
  const Bytes needed = rows_at_once(call, layout) * layout.row_bytes + threads * slot;
  return needed == 0 ? 0 : needed + align_up(1);
}

void CpuOps::linear(View y, ConstView x, const WeightMatrix& weights,
                    const LinearOptions& options) {
  const Linear call{y, x, weights, options};
  check(call);
  if (y.rows == 0 || y.cols == 0) return;
  const Chosen chosen = chosen_kernels();
  if (chosen.general == nullptr) return reference::linear(y, x, weights, options);
  const LinearArithmetic arithmetic = arithmetic_of(x.type, weights.type);
  const PreparedLayout layout(arithmetic, weights);
  const Bytes slot_bytes = align_up(kUnpackedRows * unpacked_row_bytes(arithmetic, weights));
  std::byte* const prepared = check_linear_scratch(cpu_linear_scratch(call, pool_.slots()));
  const std::int64_t at_once = rows_at_once(call, layout);
  std::byte* const slots = prepared + at_once * layout.row_bytes;
  const auto run = arithmetic == LinearArithmetic::floats  ? chosen.general->floats
                   : arithmetic == LinearArithmetic::pairs ? chosen.pairs->pairs
                                                           : chosen.general->eight_bits;
  const std::int64_t step = rows_a_job(weights, pool_.slots());
  for (std::int64_t row = 0; row < y.rows; row += at_once) {
    const std::int64_t rows = std::min(at_once, y.rows - row);
    constexpr std::int64_t kRowsAJob = 8;  // a token's few rows wake nobody
    pool_.parallel_for((rows + kRowsAJob - 1) / kRowsAJob, [&](std::int64_t job, int) {
      for (std::int64_t i = job * kRowsAJob; i < std::min(rows, (job + 1) * kRowsAJob); ++i) {
        chosen.general->prepare(call, row + i, prepared + i * layout.row_bytes);
      }
    });
    pool_.parallel_for((weights.rows + step - 1) / step, [&](std::int64_t job, int slot) {
      run({call, prepared, row, rows, job * step, std::min(weights.rows, (job + 1) * step),
           slots + slot * slot_bytes});
    });
  }
}

std::byte* CpuOps::check_linear_scratch(Bytes needed) const {
  const auto given = static_cast<Bytes>(scratch_.size());
  if (given < needed) {
    throw Error(
        fmt::format("linear: the context's scratch has {} bytes and {} are needed on {} "
                    "threads; give what linear_scratch() asks for",
                    given, needed, pool_.slots()));
  }
  if (needed == 0) return nullptr;
  const auto past = static_cast<Bytes>(reinterpret_cast<std::uintptr_t>(scratch_.data()) % 64);
  return scratch_.data() + (align_up(past) - past);
}

void CpuOps::embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids,
                   float scale, std::int64_t first_id) {
  if (out.cols % grain_of(table.type).per != 0 || out.cols != table.cols) {
    throw Error(fmt::format("embed: rows of {} numbers from a table of {} x {} in {}", out.cols,
                            table.rows, table.cols, name_of(table.type)));
  }
  const Chosen chosen = chosen_kernels();
  if (chosen.general == nullptr) return reference::embed(out, table, ids, scale, first_id);
  constexpr std::int64_t kPart = 2048;  // numbers that are widened at a time
  for_rows(out.rows, out.cols, [&](std::int64_t first, std::int64_t last) {
    float wide[kPart];
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t row = ids.data()[i] - first_id;
      if (row < 0 || row >= table.rows) continue;
      const std::byte* const from = table.row(row);
      for (std::int64_t k = 0; k < out.cols; k += kPart) {
        const std::int64_t n = std::min(kPart, out.cols - k);
        const WeightMatrix part{from + grain_of(table.type).size_of(k), table.type, 1, n};
        chosen.general->widen(part, 0, {wide, to_size(n)});
        if (scale != 1.0f) {
          for (std::int64_t j = 0; j < n; ++j) wide[j] *= scale;
        }
        convert_rows(rows_of(out, i, k), {wide, DType::f32, n}, 1, n);
      }
    }
  });
}

}  // namespace ebb::kernels
