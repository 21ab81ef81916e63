// The optimizer's arithmetic on this machine: updates in the first-level cache, where memory costs
// nothing, and of small chunks, where handing out work does; what moves gradients, from memory.
// `ebb bench optimizer` has the updates from memory beside their ceilings. EBB_ISA forces an
// instruction set.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "base/machine.h"
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/optimizer_ops.h"

namespace {

using benchmark::Counter;
using ebb::DType;
using namespace ebb::kernels;

// All planes of `count` parameters behind each other, as a chunk has them.
class Planes {
 public:
  Planes(StateFormat format, std::int64_t count) : format_(format), count_(count) {
    weight_ = take(2 * count, 0x3c);
    low_ = take(2 * count, 1);
    first_ = take(moment_plane_bytes(format, count), 0x20);
    second_ = take(moment_plane_bytes(format, count), 0x20);
    scales_ = take(2 * state_blocks(count), 100);
    gradient_ = take(2 * count, 0x38);
  }
  StateSpan span() {
    StateSpan span;
    span.weight = weight_;
    span.low = reinterpret_cast<std::int16_t*>(low_);
    span.format = format_;
    span.first = first_;
    span.second = second_;
    if (format_ == StateFormat::int8) span.scales = reinterpret_cast<std::uint8_t*>(scales_);
    span.gradient = gradient_;
    span.count = count_;
    return span;
  }

 private:
  std::byte* take(std::int64_t bytes, int value) {
    std::byte* at = memory_->data() + used_;
    used_ += (bytes + 63) / 64 * 64;
    std::fill_n(at, bytes, static_cast<std::byte>(value));
    return at;
  }
  StateFormat format_;
  std::int64_t count_;
  std::unique_ptr<ebb::device::Buffer> memory_ =
      ebb::device::CpuDevice().allocate_host(15 * count_ + 4096);
  std::int64_t used_ = 0;
  std::byte *weight_, *low_, *first_, *second_, *scales_, *gradient_;
};

void report(benchmark::State& state, std::int64_t count, double bytes_per_parameter = 0) {
  const double parameters = static_cast<double>(state.iterations() * count);
  state.counters["ns/param"] = Counter(parameters * 1e-9, Counter::kIsRate | Counter::kInvert);
  if (bytes_per_parameter == 0) return;
  state.counters["GB/s"] = Counter(parameters * bytes_per_parameter * 1e-9, Counter::kIsRate);
}

void update(benchmark::State& state, StateFormat format) {
  const std::int64_t count = state.range(1);
  ebb::ThreadPool pool(static_cast<int>(state.range(0)));
  CpuOptimizerOps ops(pool);
  Planes planes(format, count);
  const StepScale scale;
  for (auto _ : state) {
    ops.update(planes.span(), AdamWStep{}, &scale);
    benchmark::ClobberMemory();
  }
  report(state, count);
}

constexpr std::int64_t kParameters = std::int64_t{16} << 20;

template <class Call>
void on_gradients(benchmark::State& state, double bytes_per_parameter, Call&& call) {
  ebb::ThreadPool pool(static_cast<int>(state.range(0)));
  CpuOptimizerOps ops(pool);
  const auto memory = ebb::device::CpuDevice().allocate_host(6 * kParameters);
  auto* sum = reinterpret_cast<float*>(memory->data());
  auto* gradient = reinterpret_cast<ebb::bf16*>(sum + kParameters);
  std::fill_n(sum, kParameters, 1e-3f);
  std::fill_n(gradient, kParameters, ebb::to_bf16(1e-3f));
  for (auto _ : state) {
    call(ops, sum, gradient);
    benchmark::ClobberMemory();
  }
  report(state, kParameters, bytes_per_parameter);
}

void add_gradient(benchmark::State& state) {
  on_gradients(state, 10, [](CpuOptimizerOps& ops, float* sum, ebb::bf16* gradient) {
    ops.add_gradient(sum, gradient, DType::bf16, kParameters);
  });
}

void finish_gradient(benchmark::State& state) {
  on_gradients(state, 8, [](CpuOptimizerOps& ops, float* sum, ebb::bf16* gradient) {
    ops.finish_gradient(gradient, DType::bf16, sum, DType::f32, kParameters);
  });
}

void square_sums(benchmark::State& state) {
  std::vector<double> partials(norm_blocks(kParameters));
  on_gradients(state, 2, [&](CpuOptimizerOps& ops, float*, ebb::bf16* gradient) {
    ops.square_sums(partials.data(), gradient, DType::bf16, kParameters);
  });
}

const std::int64_t kCpus = ebb::usable_cpus();

void threads_and_sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"threads", "parameters"})->UseRealTime()->Args({1, 1024});
  for (const std::int64_t count : {1000, 10'000, 100'000}) {
    bench->Args({1, count});
    if (kCpus > 1) bench->Args({kCpus, count});
  }
}

void every_thread_count(benchmark::internal::Benchmark* bench) {
  bench->ArgName("threads")->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);
  if (kCpus > 1) bench->Arg(kCpus);
}

BENCHMARK_CAPTURE(update, exact, StateFormat::exact)->Apply(threads_and_sizes);
BENCHMARK_CAPTURE(update, bf16, StateFormat::bf16)->Apply(threads_and_sizes);
BENCHMARK_CAPTURE(update, int8, StateFormat::int8)->Apply(threads_and_sizes);
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
