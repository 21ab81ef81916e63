#include "plan/profile.h"

#include <algorithm>

#include <fmt/format.h>

namespace ebb::plan {

Profile rough_cpu_profile(int threads) {
  // A server core does some 50 GFLOP/s of fp32 and shares memory of some 10 GB/s a core.
  const double cores = threads;
  return {.name = fmt::format("cpu, {} threads (rule of thumb, not measured)", threads),
          .matmul_flops = 50e9 * cores,
          .device_bytes_per_second = 6e9 * cores,
          .up_bytes_per_second = 6e9,
          .down_bytes_per_second = 6e9,
          .host_bytes_per_second = 6e9 * cores,
          .task_seconds = 10e-6};
}

Profile rough_gpu_profile(int threads) {
  return {.name = fmt::format("a GPU of the H100 class, {} threads (rule of thumb, not measured)",
                              threads),
          .matmul_flops = 550e12,
          .device_bytes_per_second = 3.5e12,
          .up_bytes_per_second = 50e9,
          .down_bytes_per_second = 50e9,
          .host_bytes_per_second = std::min(120e9, 10e9 * threads),
          .task_seconds = 10e-6};
}

double predicted_seconds(const Task& task, const Profile& profile) {
  const auto moved = static_cast<double>(task.moved);
  double seconds = profile.task_seconds;
  switch (task.lane) {
    case Lane::compute:
      seconds += task.cost.flops / profile.matmul_flops +
                 task.cost.bytes / profile.device_bytes_per_second +
                 moved / profile.up_bytes_per_second;
      break;
    case Lane::up: seconds += moved / profile.up_bytes_per_second; break;
    case Lane::down: seconds += moved / profile.down_bytes_per_second; break;
    case Lane::host: seconds += moved / profile.host_bytes_per_second; break;
  }
  return seconds;
}

}  // namespace ebb::plan
