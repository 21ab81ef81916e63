// The optimizer's speed on this machine, beside two ceilings for as many bytes and the same
// threads: a plain copy, whose writes also fetch the line they overwrite (uncounted bytes), and a
// pass that adds in place, which fetches no more than it counts. Bytes are those that must move:
// for the update with bf16 weights and gradients, 2 + 2 + 4 + 4 a parameter read and written and 2
// of gradient read. "of in place" is the share of the second ceiling.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include "base/machine.h"
#include "base/thread_pool.h"
#include "kernels/cpu/optimizer_ops.h"

namespace {

using ebb::DType;
using namespace ebb::kernels;

constexpr std::int64_t kParameters = std::int64_t{16} << 20;

struct Planes {
  std::vector<ebb::bf16> weight = std::vector<ebb::bf16>(kParameters, ebb::to_bf16(1.0f));
  std::vector<std::int16_t> low = std::vector<std::int16_t>(kParameters, 1);
  std::vector<float> first = std::vector<float>(kParameters, 1e-3f);
  std::vector<float> second = std::vector<float>(kParameters, 1e-6f);
  std::vector<ebb::bf16> gradient = std::vector<ebb::bf16>(kParameters, ebb::to_bf16(1e-3f));

  StateSpan span() {
    return {weight.data(), DType::bf16,     low.data(),  first.data(),
            second.data(), gradient.data(), DType::bf16, kParameters};
  }
};

constexpr std::int64_t kBytes = kParameters * 13;  // moved twice: as many as the update moves
constexpr std::int64_t kPiece = std::int64_t{1} << 18;

void add_in_place(ebb::ThreadPool& pool, std::vector<std::uint64_t>& words) {
  constexpr std::int64_t kWords = kPiece / 8;
  pool.parallel_for(kBytes / kPiece, [&](std::int64_t piece, int) {
    std::uint64_t* at = words.data() + piece * kWords;
    for (std::int64_t i = 0; i < kWords; ++i) at[i] += 1;
  });
}

// Bytes per second of the best of five passes; measured once for a number of threads.
double in_place_ceiling(int threads) {
  static std::map<int, double> known;
  double& best = known[threads];
  if (best > 0) return best;
  ebb::ThreadPool pool(threads);
  std::vector<std::uint64_t> words(kBytes / 8, 1);
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    add_in_place(pool, words);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kBytes / took.count());
  }
  return best;
}

void report(benchmark::State& state, double bytes_per_parameter) {
  using benchmark::Counter;
  const double parameters = static_cast<double>(state.iterations()) * kParameters;
  const double bytes = parameters * bytes_per_parameter;
  state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsRate);
  state.counters["ns/param"] = Counter(parameters * 1e-9, Counter::kIsRate | Counter::kInvert);
  state.counters["of in place"] =
      Counter(bytes / in_place_ceiling(static_cast<int>(state.range(0))), Counter::kIsRate);
}

void copy(benchmark::State& state) {
  ebb::ThreadPool pool(static_cast<int>(state.range(0)));
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  for (auto _ : state) {
    pool.parallel_for(kBytes / kPiece, [&](std::int64_t piece, int) {
      std::memcpy(to.data() + piece * kPiece, from.data() + piece * kPiece, kPiece);
    });
    benchmark::ClobberMemory();
  }
  report(state, 26);
}

void in_place(benchmark::State& state) {
  ebb::ThreadPool pool(static_cast<int>(state.range(0)));
  std::vector<std::uint64_t> words(kBytes / 8, 1);
  for (auto _ : state) {
    add_in_place(pool, words);
    benchmark::ClobberMemory();
  }
  report(state, 26);
}

template <class Call>
void on_planes(benchmark::State& state, double bytes_per_parameter, Call&& call) {
  ebb::ThreadPool pool(static_cast<int>(state.range(0)));
  CpuOptimizerOps ops(pool);
  Planes planes;
  for (auto _ : state) {
    call(ops, planes);
    benchmark::ClobberMemory();
  }
  report(state, bytes_per_parameter);
}

void adamw(benchmark::State& state) {
  on_planes(state, 26, [](CpuOptimizerOps& ops, Planes& planes) {
    const StepScale scale;
    ops.adamw(planes.span(), AdamWStep{}, &scale);
  });
}

void add_gradient(benchmark::State& state) {
  on_planes(state, 10, [](CpuOptimizerOps& ops, Planes& planes) {
    ops.add_gradient(planes.first.data(), planes.gradient.data(), DType::bf16, kParameters);
  });
}

void finish_gradient(benchmark::State& state) {
  on_planes(state, 8, [](CpuOptimizerOps& ops, Planes& planes) {
    ops.finish_gradient(planes.gradient.data(), DType::bf16, planes.first.data(), DType::f32,
                        kParameters);
  });
}

void square_sums(benchmark::State& state) {
  std::vector<double> partials(norm_blocks(kParameters));
  on_planes(state, 2, [&](CpuOptimizerOps& ops, Planes& planes) {
    ops.square_sums(partials.data(), planes.gradient.data(), DType::bf16, kParameters);
  });
}

void every_thread_count(benchmark::internal::Benchmark* bench) {
  bench->ArgName("threads")->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);
  if (const int cpus = ebb::usable_cpus(); cpus > 1) bench->Arg(cpus);
}

BENCHMARK(copy)->Apply(every_thread_count);
BENCHMARK(in_place)->Apply(every_thread_count);
BENCHMARK(adamw)->Apply(every_thread_count);
BENCHMARK(add_gradient)->Apply(every_thread_count);
BENCHMARK(finish_gradient)->Apply(every_thread_count);
BENCHMARK(square_sums)->Apply(every_thread_count);

}  // namespace

BENCHMARK_MAIN();
