// usage: optimizer_count FORMAT CALLS
// Updates 4096 parameters CALLS times on one thread: for tools/check_instructions.sh, which counts
// what the processor executes for it.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/optimizer_ops.h"

int main(int argc, char** argv) {
  using namespace ebb::kernels;
  if (argc != 3) return 2;
  constexpr std::int64_t kCount = 4096;
  StateFormat format = StateFormat::exact;
  for (const StateFormat each : {StateFormat::exact, StateFormat::bf16, StateFormat::int8}) {
    if (name_of(each) == std::string_view(argv[1])) format = each;
  }
  std::vector<std::uint8_t> weight(2 * kCount, 0x3c), low(2 * kCount, 1),
      gradient(2 * kCount, 0x38);
  const auto moment_bytes = static_cast<std::size_t>(moment_plane_bytes(format, kCount));
  std::vector<std::uint8_t> first(moment_bytes, 0x20), second(moment_bytes, 0x20);
  std::vector<std::uint8_t> scales(2 * state_blocks(kCount), 100);
  StateSpan span;
  span.weight = weight.data();
  span.low = reinterpret_cast<std::int16_t*>(low.data());
  span.format = format;
  span.first = first.data();
  span.second = second.data();
  if (format == StateFormat::int8) span.scales = scales.data();
  span.gradient = gradient.data();
  span.count = kCount;
  use_isa_of_environment();
  ebb::ThreadPool pool(1);
  CpuOptimizerOps ops(pool);
  const StepScale scale;
  for (int call = std::atoi(argv[2]); call > 0; --call) ops.update(span, AdamWStep{}, &scale);
}
