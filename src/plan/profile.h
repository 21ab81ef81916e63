// What is known of a machine's speeds, for predictions: measured by a probe, or from data sheets,
// and each number says which.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "plan/program.h"

namespace ebb::plan {

// A number and where it is from: "measured", "data sheet", "rule of thumb".
struct Figure {
  Figure() = default;
  Figure(double number, std::string_view from = "assumed") : value(number), source(from) {}
  operator double() const { return value; }

  double value = 0;
  std::string source = "assumed";
};

// Something that lanes share while they run at once. `wants` is what each takes of it when it runs
// alone; where together they want more than there is, all of them slow down by the same factor.
struct Shared {
  std::string name;
  Figure capacity;
  std::array<double, kLanes.size()> wants{};  // by lane
};

struct Profile {
  std::string name;
  Figure matmul_flops;             // floating-point operations a second
  Figure device_bytes_per_second;  // memory traffic of the compute lane
  Figure up_bytes_per_second;      // host to device
  Figure down_bytes_per_second;
  Figure host_bytes_per_second;  // memory traffic of updates by the CPU
  Figure task_seconds;           // what starting a task costs
  std::vector<Shared> shared{};

  // The machine, for whoever plans for it from elsewhere.
  std::string device{};  // "cpu" or "cuda"
  Bytes device_memory = 0;
  Bytes host_memory = 0;
  int cores = 0;
};

// Keeps its order; what a profile is stored as and read from.
Json to_json(const Profile&);
// Throws FormatError that names `where` and the field.
Profile parse_profile(const Json&, std::string_view where);

// The cpu device of a machine with so many threads, by rule of thumb.
Profile rough_cpu_profile(int threads);

// A GPU of the H100 class on PCIe 5, by rule of thumb; `threads` update on the host.
Profile rough_gpu_profile(int threads);

double predicted_seconds(const Task&, const Profile&);

}  // namespace ebb::plan
