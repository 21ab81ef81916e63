// What is known of a machine's speeds, for predictions. Each number says where it is from.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/enum_array.h"
#include "base/json_fwd.h"
#include "base/list.h"
#include "plan/program.h"

namespace ebb::plan {

// A number and where it is from: "measured", "rule of thumb", "0.75 of data sheet".
struct Figure {
  Figure() = default;
  Figure(double number, std::string_view from = "assumed") : value(number), source(from) {}
  operator double() const { return value; }
  bool measured() const { return source == "measured"; }

  double value = 0;
  std::string source = "assumed";
};

using ByDraw = EnumArray<Draw, double, kDraws.size()>;

// Something that tasks share while they run at once. Where together they want more than there is,
// it is divided in proportion to what each got when all were measured at once, or, where that was
// not measured, to what each wants; none gets more than it wants.
struct Shared {
  std::string name;
  Figure capacity;
  ByDraw wants{};   // of a task alone, by what it draws
  ByDraw beside{};  // of a task beside all others; 0: not measured

  double wants_of(Draw draw) const { return wants[draw]; }
  double beside_of(Draw draw) const { return beside[draw]; }
};

// A drive that nobody measured, as sustained writes leave it.
inline const Figure kRoughRead = {2e9, "rule of thumb"};
inline const Figure kRoughWrite = {1e9, "rule of thumb"};

struct Profile {
  std::string name;
  // The compute lane, as Cost has it: bf16, states of the exact format.
  Figure matmul_flops;  // floating-point operations a second
  Figure narrow_flops{};
  Figure attention_flops{};
  Figure attention_backward_flops{};
  Figure pass_bytes_per_second{};
  Figure device_bytes_per_second;
  Figure up_bytes_per_second;  // host to device
  Figure down_bytes_per_second;
  Figure host_bytes_per_second;               // memory traffic of updates by the CPU
  Figure sum_bytes_per_second{};              // of sums of gradients by the CPU
  Figure cpu_flops{};                         // of blocks of a model by the CPU
  Figure cpu_read_bytes_per_second{};         // of their weights, where tokens are few
  Figure read_bytes_per_second = kRoughRead;  // disk to host, and host to disk
  Figure write_bytes_per_second = kRoughWrite;
  Figure task_seconds;    // what starting a task costs
  Figure copy_seconds{};  // what starting a copy costs besides
  Figure call_seconds{};  // what starting an op within a task costs
  List<Shared> shared{};
  // Figures that are others with another type or state format: "fp32", "bf16 states",
  // "int8 states"; by name of the variant and of the field.
  std::map<std::string, std::map<std::string, Figure>> variants{};

  // The machine itself.
  std::string device{};  // "cpu" or "cuda"
  Bytes device_memory = 0;
  Bytes host_memory = 0;
  int cores = 0;
};

// A speed of a profile.
struct ProfileField {
  std::string_view name;   // in files
  std::string_view label;  // for people
  std::string_view unit;   // "FLOP/s", "B/s" or "s"
  Figure Profile::*figure;
  double Cost::*work;  // what it is the speed of; null for what is not the compute lane's
};
std::span<const ProfileField> profile_fields();

// The profile with the figures of a variant; as it is where there are none.
Profile with_variant(Profile, std::string_view variant);

// Keeps its order; what a profile is stored as and read from.
Json to_json(const Profile&);
// Throws FormatError that names `where` and the field.
Profile parse_profile(const Json&, std::string_view where);

// The cpu device of a machine with so many threads, by rule of thumb.
Profile rough_cpu_profile(int threads);

// Blocks of a model by so many cores.
Figure rough_cpu_flops(int threads);

// A GPU of the H100 class on PCIe 5, by rule of thumb; `threads` update on the host.
Profile rough_gpu_profile(int threads);

// What lanes of a disk share, by its rates in the profile, instead of what was said before: several
// that read, or that write, get no more than one; both at once get `both`, in bytes that are read:
// what is written counts as what could be read meanwhile.
void add_shared_disk(Profile&, const Figure& both);

// Seconds that the field's part of the work takes on the compute lane.
double seconds_of(const Cost&, const ProfileField&, const Profile&);

// What products and attention of few tokens take longer than that, as their operands are not read
// any faster; at the speed of updates, which read and write memory alike.
double reading_seconds(const Cost&, const Profile&);

// A task of the CPU with a block of a model: the longer of computing and of reading operands, and
// what else there is.
double cpu_seconds(const Cost&, const Profile&);

// Seconds that a task takes when nothing runs beside it.
double predicted_seconds(const Task&, const LaneInfo&, const Profile&);

}  // namespace ebb::plan
