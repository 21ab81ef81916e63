#include "plan/machines.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/error.h"

namespace ebb::plan {
namespace {

constexpr std::string_view kSheet = "data sheet";
constexpr std::string_view kMeasured = "measured";
// What well-tuned kernels reach of the numbers on data sheets.
constexpr double kMatmulShare = 0.75;
constexpr double kMemoryShare = 0.85;
constexpr double kLinkShare = 0.85;

struct Host {
  int cores = 0;
  Bytes memory = 0;
  double bytes_per_second = 0;  // of its memory, by the data sheet
};
constexpr Host kWorkstation = {.cores = 16, .memory = 128 * kGiB, .bytes_per_second = 89.6e9};
constexpr Host kServer = {.cores = 32, .memory = 512 * kGiB, .bytes_per_second = 307.2e9};

struct Card {
  std::string_view name;
  std::string_view description;
  double matmul_flops = 0;      // bf16, fp32 sums, dense
  double bytes_per_second = 0;  // of its memory
  double link = 0;              // one way
  Bytes memory = 0;
  Host host;
};

// GeForce cards sum half-precision products in fp32 at half their headline rate.
constexpr Card kCards[] = {
    {"rtx-3090", "GeForce RTX 3090, PCIe 4, a workstation", 71e12, 936e9, 31.5e9, 24 * kGiB,
     kWorkstation},
    {"rtx-4090", "GeForce RTX 4090, PCIe 4, a workstation", 165.2e12, 1008e9, 31.5e9, 24 * kGiB,
     kWorkstation},
    {"rtx-5090", "GeForce RTX 5090, PCIe 5, a workstation", 209.5e12, 1792e9, 63e9, 32 * kGiB,
     kWorkstation},
    {"a100-80gb", "A100 SXM 80 GB, PCIe 4, a server", 312e12, 2039e9, 31.5e9, 80 * kGiB, kServer},
    {"h100", "H100 SXM 80 GB, PCIe 5, a server", 989.4e12, 3350e9, 63e9, 80 * kGiB, kServer},
};

// Room for what a driver takes for itself.
constexpr Bytes kReserved = kGiB;

Shared link(const Figure& both, double up, double down) {
  return {.name = "link", .capacity = both, .wants = {0, up, down, 0}};
}
Shared host_memory(const Figure& capacity, double up, double down, double update) {
  return {.name = "host memory", .capacity = capacity, .wants = {0, up, down, update}};
}

Profile from_sheet(const Card& card) {
  const double way = card.link * kLinkShare;
  const double memory = card.host.bytes_per_second * kMemoryShare;
  // Updates by the CPU are bound by memory where there are cores enough: some 8 GB/s each.
  const double update = std::min(memory, 8e9 * card.host.cores);
  return {.name = fmt::format("{}: {} (from data sheets)", card.name, card.description),
          .matmul_flops = {card.matmul_flops * kMatmulShare, kSheet},
          .device_bytes_per_second = {card.bytes_per_second * kMemoryShare, kSheet},
          .up_bytes_per_second = {way, kSheet},
          .down_bytes_per_second = {way, kSheet},
          .host_bytes_per_second = {update, kSheet},
          .task_seconds = {10e-6, "assumed"},
          .shared = {link({1.8 * way, kSheet}, way, way),
                     host_memory({memory, kSheet}, way, way, update)},
          .device = "cuda",
          .device_memory = card.memory - kReserved,
          .host_memory = card.host.memory / 4 * 3,
          .cores = card.host.cores};
}

Profile h200() {
  return {.name = "h200: H200 SXM 141 GB, PCIe 5, 16 cores of a server",
          .matmul_flops = {785e12, kMeasured},
          .device_bytes_per_second = {4.0e12, kMeasured},
          .up_bytes_per_second = {55e9, kMeasured},
          .down_bytes_per_second = {55e9, kMeasured},
          .host_bytes_per_second = {131e9, kMeasured},
          .task_seconds = {10e-6, "assumed"},
          .shared = {link({100e9, kMeasured}, 55e9, 55e9),
                     host_memory({153e9, kMeasured}, 55e9, 55e9, 131e9)},
          .device = "cuda",
          .device_memory = 138 * kGiB,
          .host_memory = 93 * kGiB,
          .cores = 16};
}

// No GPU: two sockets' worth of cores with AVX-512, on its own memory.
Profile cpu_server() {
  const double memory = kServer.bytes_per_second * kMemoryShare;
  return {.name = "cpu-server: 32 cores with AVX-512, no GPU (from data sheets)",
          .matmul_flops = {32 * 60e9, kSheet},
          .device_bytes_per_second = {memory, kSheet},
          .up_bytes_per_second = {12e9, kSheet},
          .down_bytes_per_second = {12e9, kSheet},
          .host_bytes_per_second = {memory, kSheet},
          .task_seconds = {10e-6, "assumed"},
          .shared = {{.name = "cores", .capacity = {32, kSheet}, .wants = {32, 1, 1, 32}}},
          .device = "cpu",
          .device_memory = kServer.memory / 8 * 3,
          .host_memory = kServer.memory / 8 * 3,
          .cores = kServer.cores};
}

}  // namespace

std::vector<std::string_view> machine_names() {
  std::vector<std::string_view> names;
  for (const Card& card : kCards) names.push_back(card.name);
  names.insert(names.end(), {"h200", "cpu-server"});
  return names;
}

Profile machine(std::string_view name) {
  if (name == "h200") return h200();
  if (name == "cpu-server") return cpu_server();
  const auto* card = std::find_if(std::begin(kCards), std::end(kCards),
                                  [&](const Card& each) { return each.name == name; });
  if (card != std::end(kCards)) return from_sheet(*card);
  throw ConfigError(fmt::format("--machine {}: neither a file nor a machine that Ebb knows: {}",
                                name, fmt::join(machine_names(), ", ")));
}

}  // namespace ebb::plan
