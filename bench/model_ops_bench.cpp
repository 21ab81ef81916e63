// How fast the model's ops run, over the table of cases that the tests use. Flops and bytes are
// those of CountingOps. The ceilings are in the table too: the large products for GFLOP/s, the
// conversion of a type to itself (a copy of memory) for GB/s.
//
//   model_ops_bench --benchmark_filter='threads:2'
#include <benchmark/benchmark.h>

#include <memory>

#include "../tests/kernels/op_table.h"
#include "base/thread_pool.h"
#include "kernels/counting_ops.h"
#include "kernels/cpu/cpu_ops.h"

namespace {

using namespace ebb;
using namespace ebb::kernels;

std::vector<OpCase> bench_cases() {
  const DType f = DType::f32, b = DType::bf16;
  std::vector<OpCase> cases;
  for (const auto& [in, out] : {std::pair{b, b}, {b, f}, {f, f}}) {
    for (const auto& [m, n, k] :
         {std::tuple{1024, 1024, 1024}, {512, 128, 384}, {2048, 1536, 512}}) {
      cases.push_back(matmul_case(in, out, {m, n, k, false, true}));
      cases.push_back(matmul_case(in, out, {m, n, k, false, false}));
      cases.push_back(matmul_case(in, out, {m, n, k, true, false}));
    }
    cases.push_back(matmul_case(in, out, {1, 4096, 4096, false, true}));
    cases.push_back(matmul_case(in, out, {128, 384, 2048, true, false, false, 2}));
  }
  for (const DType t : {b, f}) {
    for (const AttentionShape& s : {AttentionShape{2, 512, 512, 8, 8, 64, 0.125f},
                                    {1, 2048, 2048, 8, 2, 64, 0.125f},
                                    {1, 2048, 2048, 8, 2, 64, 0.125f, 512},
                                    {1, 2048, 2048, 4, 4, 128, 0.1f}}) {
      cases.push_back(attention_case(t, s, 0));
      cases.push_back(attention_backward_case(t, s, 0));
    }
    cases.push_back(attention_case(t, {1, 1, 4096, 16, 4, 128, 0.1f}, 0));
    const NormShape rows{2048, 1024}, heads{2048, 64, {.groups = 16}};
    const NormShape layer{2048, 1024, {.kind = LayerNorm::Kind::layer}, true};
    for (const NormShape& s : {rows, heads, layer}) {
      cases.push_back(norm_case(t, s, {}));
      cases.push_back(norm_backward_case(t, f, s, {}));
    }
    cases.push_back(rope_case(t, 2048, {16, 64, 0, 1024, false}, 0));
    for (const Activation act : {Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
      const ActivationShape shape{2048, 2816, act, act == Activation::silu};
      cases.push_back(activate_case(t, shape, 0));
      cases.push_back(activate_backward_case(t, shape, ActivationResults::both, 0));
    }
    cases.push_back(cross_entropy_case(t, 256, 50257, false, 0));
    cases.push_back(embed_case(t, {2048, 1024, 50257}, 0));
    cases.push_back(embed_backward_case(t, {2048, 1024, 50257}, 0));
    cases.push_back(column_sums_case(t, f, 2048, 1024, 0));
    cases.push_back(convert_case(t, t, 4096, 8192, 0));
  }
  cases.push_back(convert_case(f, b, 2048, 2048, 0));
  return cases;
}

void run_case(benchmark::State& state, const OpCase& c) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  CpuModelLibrary library(pool);
  CountingOps counting(library);
  Buffers buffers = c.make(1);
  if (c.prepare) c.prepare(counting, buffers);
  c.run(counting, buffers);
  std::vector<std::byte> scratch(static_cast<std::size_t>(counting.take().scratch));
  CpuOps ops(library, scratch);
  if (c.prepare) c.prepare(ops, buffers);
  c.run(counting, buffers);
  const CountingOps::Count count = counting.take();
  c.run(ops, buffers);
  for (auto _ : state) c.run(ops, buffers);
  const auto rate = [&](double each) {
    return benchmark::Counter(each * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  };
  state.counters["GFLOP/s"] = rate(count.flops);
  state.counters["GB/s"] = rate(count.bytes);
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (const OpCase& c : bench_cases()) {
    benchmark::RegisterBenchmark(c.name.c_str(), [c](benchmark::State& s) { run_case(s, c); })
        ->ArgName("threads")
        ->Arg(1)
        ->Arg(2)
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
}
