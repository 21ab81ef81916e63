// What is known of a machine's speeds, for predictions. Rough so far: constants by kind of device.
#pragma once

#include <string>

#include "plan/program.h"

namespace ebb::plan {

struct Profile {
  std::string name;
  double matmul_flops = 0;             // floating-point operations a second
  double device_bytes_per_second = 0;  // memory traffic of the compute lane
  double up_bytes_per_second = 0;      // host to device
  double down_bytes_per_second = 0;
  double host_bytes_per_second = 0;  // memory traffic of updates by the CPU
  // What lanes share when they run at once; 0 where nothing is known to be short.
  double link_bytes_per_second = 0;         // both ways together
  double host_memory_bytes_per_second = 0;  // copies and updates together
  double task_seconds = 0;                  // what starting a task costs
};

// The cpu device of a machine with so many threads, by rule of thumb.
Profile rough_cpu_profile(int threads);

// A GPU of the H100 class on PCIe 5, by rule of thumb; `threads` update on the host.
Profile rough_gpu_profile(int threads);

double predicted_seconds(const Task&, const Profile&);

}  // namespace ebb::plan
