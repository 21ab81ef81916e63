// The optimizer's speed on this machine, beside ceilings for the same mix of bytes and the same
// threads, measured in the same run: the best of a few loops that read and write as many bytes of
// as many arrays in place, read the gradient's bytes besides, and compute nothing worth speaking
// of. Bytes are those that must move: for the update with bf16 weights and gradients, 4 a parameter
// of master and the moments' read and written, and 2 of gradient read. "of ceiling" is the share.
// EBB_ISA forces an instruction set.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/thread_pool.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/optimizer_ops.h"

namespace {

using ebb::DType;
using namespace ebb::kernels;

constexpr std::int64_t kParameters = std::int64_t{16} << 20;
constexpr std::int64_t kPiece = std::int64_t{1} << 15;  // parameters

// All planes of kParameters, as bytes.
struct Planes {
  explicit Planes(StateFormat format, int moments = 2)
      : format(format),
        moments(moments),
        weight(2 * kParameters, 0x3c),
        low(2 * kParameters, 1),
        first(moment_bytes(format) * kParameters, 0x20),
        second(moments == 2 ? moment_bytes(format) * kParameters : 0, 0x20),
        scales(2 * state_blocks(kParameters), 100),
        gradient(2 * kParameters, 0x38) {}

  StateSpan span() {
    StateSpan span;
    span.weight = weight.data();
    span.low = reinterpret_cast<std::int16_t*>(low.data());
    span.format = format;
    span.first = first.data();
    if (moments == 2) span.second = second.data();
    if (format == StateFormat::int8) span.scales = scales.data();
    span.gradient = gradient.data();
    span.count = kParameters;
    return span;
  }
  std::int64_t bytes_per_parameter() const { return 10 + 2 * moments * moment_bytes(format); }

  StateFormat format;
  int moments;
  std::vector<std::uint8_t> weight, low, first, second, scales, gradient;
};

enum class Variant { plain, prefetch };

// What a ceiling moves: `planes` arrays in place, one after the other within a piece or side by
// side, and one that is only read.
struct Ceiling {
  std::vector<std::vector<std::uint64_t>> planes;
  std::vector<std::uint64_t> gradient = std::vector<std::uint64_t>(kParameters / 4, 1);

  explicit Ceiling(const std::vector<std::int64_t>& bytes) {
    for (const std::int64_t b : bytes) {
      planes.emplace_back(static_cast<std::size_t>(kParameters * b / 8), 1);
    }
  }
  // One pass; every 512 bytes of the gradient go with as many parameters of all planes.
  void pass(ebb::ThreadPool& pool, Variant variant) {
    pool.parallel_for(kParameters / kPiece, [&](std::int64_t piece, int) {
      constexpr std::int64_t kRun = 256;  // parameters
      std::uint64_t seen = 0;
      for (std::int64_t p = piece * kPiece; p < (piece + 1) * kPiece; p += kRun) {
        const std::uint64_t* g = gradient.data() + p / 4;
        for (std::int64_t i = 0; i < kRun / 4; ++i) seen += g[i];
        for (auto& plane : planes) {
          const auto words = static_cast<std::int64_t>(plane.size()) * kRun / kParameters;
          std::uint64_t* at =
              plane.data() + static_cast<std::int64_t>(plane.size()) * p / kParameters;
          if (variant == Variant::prefetch) {
            for (std::int64_t i = 0; i < words; i += 8) __builtin_prefetch(at + 4 * words + i, 1);
          }
          for (std::int64_t i = 0; i < words; ++i) at[i] += 1;
        }
      }
      benchmark::DoNotOptimize(seen);
    });
  }
};

// Seconds of the best pass for these planes; measured once for a number of threads.
double ceiling_seconds(const std::vector<std::int64_t>& bytes, int threads) {
  static std::map<std::pair<std::vector<std::int64_t>, int>, double> known;
  double& best = known[{bytes, threads}];
  if (best > 0) return best;
  best = 1e9;
  ebb::ThreadPool pool(threads);
  std::int64_t total = 0;
  for (const std::int64_t b : bytes) total += b;
  // Side by side as the planes are, and all in one.
  for (const std::vector<std::int64_t>& arrays : {bytes, std::vector<std::int64_t>{total}}) {
    Ceiling ceiling(arrays);
    for (const Variant variant : {Variant::plain, Variant::prefetch}) {
      for (int round = 0; round < 7; ++round) {
        const auto start = std::chrono::steady_clock::now();
        ceiling.pass(pool, variant);
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        if (round > 0) best = std::min(best, took.count());
      }
    }
  }
  return best;
}

// `bytes` of the planes in place, 2 more are read.
void report(benchmark::State& state, double bytes_per_parameter,
            const std::vector<std::int64_t>& bytes) {
  using benchmark::Counter;
  const double parameters = static_cast<double>(state.iterations()) * kParameters;
  state.counters["GB/s"] = Counter(parameters * bytes_per_parameter * 1e-9, Counter::kIsRate);
  state.counters["ns/param"] = Counter(parameters * 1e-9, Counter::kIsRate | Counter::kInvert);
  if (bytes.empty()) return;
  const double seconds = ceiling_seconds(bytes, static_cast<int>(state.range(0)));
  state.counters["of ceiling"] =
      Counter(static_cast<double>(state.iterations()) * seconds, Counter::kIsRate);
}

void update(benchmark::State& state, StateFormat format, const Step& step) {
  ebb::ThreadPool pool(static_cast<int>(state.range(0)));
  CpuOptimizerOps ops(pool);
  Planes planes(format, moments_of(step));
  const StepScale scale;
  for (auto _ : state) {
    ops.update(planes.span(), step, &scale);
    benchmark::ClobberMemory();
  }
  std::vector<std::int64_t> bytes = {2, 2};
  bytes.insert(bytes.end(), static_cast<std::size_t>(planes.moments), moment_bytes(format));
  report(state, static_cast<double>(planes.bytes_per_parameter()), bytes);
}

template <class Call>
void on_gradients(benchmark::State& state, double bytes_per_parameter, Call&& call) {
  ebb::ThreadPool pool(static_cast<int>(state.range(0)));
  CpuOptimizerOps ops(pool);
  std::vector<float> sum(kParameters, 1e-3f);
  std::vector<ebb::bf16> gradient(kParameters, ebb::to_bf16(1e-3f));
  for (auto _ : state) {
    call(ops, sum, gradient);
    benchmark::ClobberMemory();
  }
  report(state, bytes_per_parameter, {});
}

void add_gradient(benchmark::State& state) {
  on_gradients(state, 10, [](CpuOptimizerOps& ops, auto& sum, auto& gradient) {
    ops.add_gradient(sum.data(), gradient.data(), DType::bf16, kParameters);
  });
}

void finish_gradient(benchmark::State& state) {
  on_gradients(state, 8, [](CpuOptimizerOps& ops, auto& sum, auto& gradient) {
    ops.finish_gradient(gradient.data(), DType::bf16, sum.data(), DType::f32, kParameters);
  });
}

void square_sums(benchmark::State& state) {
  std::vector<double> partials(norm_blocks(kParameters));
  on_gradients(state, 2, [&](CpuOptimizerOps& ops, auto&, auto& gradient) {
    ops.square_sums(partials.data(), gradient.data(), DType::bf16, kParameters);
  });
}

// Also in the first-level cache: what the arithmetic alone takes.
void update_in_cache(benchmark::State& state, StateFormat format) {
  ebb::ThreadPool pool(1);
  CpuOptimizerOps ops(pool);
  Planes planes(format);
  StateSpan span = planes.span();
  span.count = 1024;
  const StepScale scale;
  for (auto _ : state) {
    ops.update(span, AdamWStep{}, &scale);
    benchmark::ClobberMemory();
  }
  using benchmark::Counter;
  state.counters["ns/param"] = Counter(static_cast<double>(state.iterations()) * 1024 * 1e-9,
                                       Counter::kIsRate | Counter::kInvert);
}

void every_thread_count(benchmark::internal::Benchmark* bench) {
  bench->ArgName("threads")->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);
  if (const int cpus = ebb::usable_cpus(); cpus > 1) bench->Arg(cpus);
}

BENCHMARK_CAPTURE(update, adamw_exact, StateFormat::exact, AdamWStep{})->Apply(every_thread_count);
BENCHMARK_CAPTURE(update, adamw_bf16, StateFormat::bf16, AdamWStep{})->Apply(every_thread_count);
BENCHMARK_CAPTURE(update, adamw_int8, StateFormat::int8, AdamWStep{})->Apply(every_thread_count);
BENCHMARK_CAPTURE(update, adam, StateFormat::exact, AdamStep{})->Apply(every_thread_count);
BENCHMARK_CAPTURE(update, lion, StateFormat::exact, LionStep{})->Apply(every_thread_count);
BENCHMARK_CAPTURE(update, sgd, StateFormat::exact, SgdStep{})->Apply(every_thread_count);
BENCHMARK_CAPTURE(update, adagrad, StateFormat::exact, AdagradStep{})->Apply(every_thread_count);
BENCHMARK_CAPTURE(update_in_cache, adamw_exact, StateFormat::exact);
BENCHMARK_CAPTURE(update_in_cache, adamw_bf16, StateFormat::bf16);
BENCHMARK_CAPTURE(update_in_cache, adamw_int8, StateFormat::int8);
BENCHMARK(add_gradient)->Apply(every_thread_count);
BENCHMARK(finish_gradient)->Apply(every_thread_count);
BENCHMARK(square_sums)->Apply(every_thread_count);

}  // namespace

int main(int argc, char** argv) {
  use_isa_of_environment();
  benchmark::AddCustomContext("isa", isa_in_use());
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
