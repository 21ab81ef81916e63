// Products with stored weights beside the ceilings of the same run: single rows beside a plain read
// of the same memory, many rows beside the product of bf16 that CpuOps::matmul has. Rounds
// alternate between the two, and the best of each counts.
//
//   linear_bench [THREADS] [MIB OF WEIGHTS] [ROWS]
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>

#include "../tests/kernels/stored_weights.h"
#include "base/list.h"
#include "base/thread_pool.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/isa.h"

namespace {

using namespace ebb;
using namespace ebb::kernels;

constexpr std::int64_t kCols = 3584;
constexpr int kRounds = 7;

// Of the process's own time, so that other work on the machine counts less.
double seconds(const ThreadPool& pool, const std::function<void()>& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  work();
  return (now() - start) / pool.slots();
}

// The weights added up, 8 bytes at a time in 32 sums: as fast as a loop reads.
void read(ThreadPool& pool, const WeightMatrix& weights) {
  constexpr std::int64_t kPiece = 256 * 1024;
  const auto* const words = static_cast<const std::uint64_t*>(weights.data);
  const std::int64_t count = weights.bytes() / 8;
  pool.parallel_for((count + kPiece - 1) / kPiece, [&](std::int64_t job, int) {
    std::uint64_t sums[32] = {};
    const std::int64_t end = std::min(count, (job + 1) * kPiece) / 32 * 32;
    for (std::int64_t i = job * kPiece; i < end; i += 32) {
      for (std::int64_t j = 0; j < 32; ++j) sums[j] += words[i + j];
    }
    volatile std::uint64_t sum = std::accumulate(sums, sums + 32, std::uint64_t{0});
    (void)sum;
  });
}

List<bf16> ones(std::int64_t count) {
  List<bf16> values(count);
  for (std::int64_t i = 0; i < count; ++i) {
    values[i] = to_bf16(static_cast<float>(i * 7919 % 1021) / 512 - 1);
  }
  return values;
}

struct Bench {
  ThreadPool& pool;
  CpuModelLibrary library{pool};

  // The best times of `rows` rows and of `ceiling`.
  std::pair<double, double> times(const WeightMatrix& weights, std::int64_t rows,
                                  const std::function<void()>& ceiling) {
    const List<bf16> x = ones(rows * kCols);
    List<bf16> y(rows * weights.rows);
    const Linear call{{y.data(), DType::bf16, rows, weights.rows, weights.rows},
                      {x.data(), DType::bf16, rows, kCols, kCols},
                      weights,
                      {}};
    List<std::byte> scratch(library.linear_scratch(call));
    auto ops = library.ops({.scratch = scratch});
    double best = 1e9, limit = 1e9;
    for (int round = 0; round < kRounds; ++round) {
      best = std::min(best, seconds(pool, [&] { ops->linear(call); }));
      limit = std::min(limit, seconds(pool, ceiling));
    }
    return {best, limit};
  }

  void single_rows(WeightType type, Bytes bytes) {
    const StoredWeights weights(type, bytes / grain_of(type).size_of(kCols), kCols, 1);
    const WeightMatrix& w = weights.matrix();
    std::string line = fmt::format("| {} |", name_of(type));
    for (const std::int64_t rows : {1, 4}) {
      const auto [best, limit] = times(w, rows, [&] { read(pool, w); });
      const double rate = static_cast<double>(w.bytes()) / best * 1e-9;
      line += fmt::format(" {:.1f} | {:.1f} | {:.2f} |", rate,
                          static_cast<double>(w.bytes()) / limit * 1e-9, limit / best);
    }
    fmt::print("{}\n", line);
    std::fflush(stdout);
  }

  void many_rows(WeightType type, std::int64_t rows) {
    const std::int64_t outputs = kCols;
    const StoredWeights weights(type, outputs, kCols, 1),
        plain(WeightType::bf16, outputs, kCols, 1);
    const List<bf16> a = ones(rows * kCols);
    List<bf16> c(rows * outputs);
    const View to{c.data(), DType::bf16, rows, outputs, outputs};
    const ConstView left{a.data(), DType::bf16, rows, kCols, kCols};
    const ConstView right{plain.matrix().data, DType::bf16, outputs, kCols, kCols};
    MatmulOptions options;
    options.transpose_b = true;
    List<std::byte> scratch(library.matmul_scratch(to, left, right, options));
    auto ops = library.ops({.scratch = scratch});
    ops->matmul(to, left, right, options);
    const auto [best, limit] =
        times(weights.matrix(), rows, [&] { ops->matmul(to, left, right, options); });
    const double flops = 2e-9 * static_cast<double>(rows * outputs * kCols);
    fmt::print("| {} | {:.0f} | {:.0f} | {:.2f} |\n", name_of(type), flops / best, flops / limit,
               limit / best);
    std::fflush(stdout);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const auto argument = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  use_isa_of_environment();
  ThreadPool pool(argument(1, 2));
  Bench bench{pool};
  fmt::print("{} threads, rows of {}\n\n", pool.slots(), kCols);
  fmt::print("| weights | 1 row, GB/s | read | share | 4 rows, GB/s | read | share |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  for (const WeightType type : kWeightTypes) bench.single_rows(type, argument(2, 128) * kMiB);
  const int rows = argument(3, 512);
  fmt::print("\n| weights | {} rows, GFLOP/s | matmul of bf16 | share |\n|---|---|---|---|\n",
             rows);
  for (const WeightType type : kWeightTypes) bench.many_rows(type, rows);
}
