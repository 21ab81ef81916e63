#include "plan/machines.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/error.h"

namespace ebb::plan {
namespace {

constexpr std::string_view kMeasured = "measured";
constexpr std::string_view kRough = "rule of thumb";

// The share that kernels reach of a number on a data sheet.
Figure of_sheet(double number, double share) {
  return {number * share, fmt::format("{} of data sheet", share)};
}

struct Host {
  int cores = 0;
  Bytes memory = 0;
  double bytes_per_second = 0;  // of its memory, by the data sheet
  double read = 0, write = 0;   // of its drive, by the data sheet
  double write_share = 0;       // of that, once the drive's cache is full
};
// Two channels of DDR5-5600 and a consumer's drive on PCIe 4; eight of DDR5-4800 and a server's.
constexpr Host kWorkstation = {.cores = 16,
                               .memory = 128 * kGiB,
                               .bytes_per_second = 89.6e9,
                               .read = 7e9,
                               .write = 5e9,
                               .write_share = 0.35};
constexpr Host kServer = {.cores = 32,
                          .memory = 512 * kGiB,
                          .bytes_per_second = 307.2e9,
                          .read = 6.8e9,
                          .write = 4e9,
                          .write_share = 0.8};

struct Card {
  std::string_view name;
  std::string_view description;
  double matmul_flops = 0;  // bf16, fp32 sums, dense
  double fp32_flops = 0;
  double bytes_per_second = 0;  // of its memory
  double link = 0;              // one way
  Bytes memory = 0;
  Host host;
};

// GeForce cards sum half-precision products in fp32 at half their headline rate.
constexpr Card kCards[] = {
    {"rtx-3090", "GeForce RTX 3090, PCIe 4, a workstation", 71e12, 35.6e12, 936e9, 31.5e9,
     24 * kGiB, kWorkstation},
    {"rtx-4090", "GeForce RTX 4090, PCIe 4, a workstation", 165.2e12, 82.6e12, 1008e9, 31.5e9,
     24 * kGiB, kWorkstation},
    {"rtx-5090", "GeForce RTX 5090, PCIe 5, a workstation", 209.5e12, 104.8e12, 1792e9, 63e9,
     32 * kGiB, kWorkstation},
    {"a100-80gb", "A100 SXM 80 GB, PCIe 4, a server", 312e12, 19.5e12, 2039e9, 31.5e9, 80 * kGiB,
     kServer},
    {"h100", "H100 SXM 80 GB, PCIe 5, a server", 989.4e12, 66.9e12, 3350e9, 63e9, 80 * kGiB,
     kServer},
};

// Bytes that a driver takes for itself, and that are left free.
constexpr Bytes kReserved = 3 * kGiB / 2;

Shared link(const Figure& both, double up, double down) {
  return {.name = "link", .capacity = both, .wants = {0, up, down}};
}
Shared host_memory(const Figure& capacity, double up, double down, double update, double read) {
  return {.name = "host memory",
          .capacity = capacity,
          .wants = {0, up, down, update, update, 0, 0, read}};
}

std::map<std::string, Figure> fp32_rates(double sheet) {
  return {{"matmul_flops", of_sheet(sheet, 0.8)},
          {"narrow_flops", of_sheet(sheet, 0.6)},
          {"attention_flops", of_sheet(sheet, 0.3)},
          {"attention_backward_flops", of_sheet(sheet, 0.25)}};
}

Profile from_sheet(const Card& card) {
  constexpr double link_share = 0.85;
  const double way = card.link * link_share;
  const Figure memory = of_sheet(card.host.bytes_per_second, 0.8);
  // Updates by the CPU are bound by memory where there are cores enough: some 10 GB/s each.
  const Figure by_cores{10e9 * card.host.cores, kRough};
  const Figure update = by_cores < memory ? by_cores : memory;
  const Figure read = of_sheet(card.host.read, 0.8);
  const Figure write = of_sheet(card.host.write, card.host.write_share);
  return {.name = fmt::format("{}: {}", card.name, card.description),
          .matmul_flops = of_sheet(card.matmul_flops, 0.75),
          .narrow_flops = of_sheet(card.matmul_flops, 0.5),
          .attention_flops = of_sheet(card.matmul_flops, 0.5),
          .attention_backward_flops = of_sheet(card.matmul_flops, 0.4),
          .pass_bytes_per_second = of_sheet(card.bytes_per_second, 0.7),
          .device_bytes_per_second = of_sheet(card.bytes_per_second, 0.8),
          .up_bytes_per_second = of_sheet(card.link, link_share),
          .down_bytes_per_second = of_sheet(card.link, link_share),
          .host_bytes_per_second = update,
          .sum_bytes_per_second = update,
          .cpu_flops = rough_cpu_flops(card.host.cores),
          .cpu_read_bytes_per_second = update,
          .read_bytes_per_second = read,
          .write_bytes_per_second = write,
          .task_seconds = {10e-6, kRough},
          .copy_seconds = {10e-6, kRough},
          .call_seconds = {4e-6, kRough},
          .shared = {link(of_sheet(2 * card.link, 0.75), way, way),
                     host_memory(memory, way, way, update, update)},
          .variants = {{"fp32", fp32_rates(card.fp32_flops)}},
          .device = "cuda",
          .device_memory = card.memory - kReserved,
          .host_memory = card.host.memory / 4 * 3,
          .cores = card.host.cores};
}

// Products as a card at work has them; for half a second one at rest reaches 785 TFLOP/s.
Profile h200() {
  return {.name = "h200: H200 SXM 141 GB, PCIe 5, 16 cores of a server",
          .matmul_flops = {674e12, kMeasured},
          .narrow_flops = {469e12, kMeasured},
          .attention_flops = {494e12, kMeasured},
          .attention_backward_flops = {371e12, kMeasured},
          .pass_bytes_per_second = {3.53e12, kMeasured},
          .device_bytes_per_second = {4.16e12, kMeasured},
          .up_bytes_per_second = {55e9, kMeasured},
          .down_bytes_per_second = {55e9, kMeasured},
          .host_bytes_per_second = {162e9, kMeasured},
          .sum_bytes_per_second = {150e9, kMeasured},
          .cpu_flops = rough_cpu_flops(16),
          .cpu_read_bytes_per_second = {132e9, kMeasured},
          .read_bytes_per_second = {4e9, kRough},
          .write_bytes_per_second = {3e9, kRough},
          .task_seconds = {4.6e-6, kMeasured},
          .copy_seconds = {0.7e-6, kMeasured},
          .call_seconds = {8.5e-6, kMeasured},
          .shared = {link({100e9, kMeasured}, 55e9, 55e9),
                     {.name = "host memory",
                      .capacity = {176e9, kMeasured},
                      .wants = {0, 55e9, 55e9, 162e9, 150e9, 0, 0, 132e9},
                      .beside = {0, 32e9, 50e9, 97e9, 80e9, 0, 0, 97e9}}},
          .variants = {{"fp32",
                        {{"matmul_flops", {51.5e12, kMeasured}},
                         {"narrow_flops", {45.3e12, kMeasured}},
                         {"attention_flops", {23.1e12, kMeasured}},
                         {"attention_backward_flops", {15.8e12, kMeasured}},
                         {"pass_bytes_per_second", {3.8e12, kMeasured}}}},
                       {"bf16 states",
                        {{"host_bytes_per_second", {172e9, kMeasured}},
                         {"device_bytes_per_second", {3.7e12, kMeasured}}}},
                       {"int8 states",
                        {{"host_bytes_per_second", {171e9, kMeasured}},
                         {"device_bytes_per_second", {1.37e12, kMeasured}}}}},
          .device = "cuda",
          .device_memory = 138 * kGiB,
          .host_memory = 93 * kGiB,
          .cores = 16};
}

// No GPU: cores with AVX-512, half of the memory for each tier.
Profile cpu_server() {
  Profile profile = rough_cpu_profile(kServer.cores);
  const Figure memory = of_sheet(kServer.bytes_per_second, 0.8);
  profile.name = fmt::format("cpu-server: {} cores with AVX-512, no GPU", kServer.cores);
  profile.device_bytes_per_second = memory;
  profile.host_bytes_per_second = memory;
  profile.sum_bytes_per_second = memory;
  profile.cpu_read_bytes_per_second = memory;
  profile.shared.push_back(host_memory(memory, profile.up_bytes_per_second,
                                       profile.down_bytes_per_second, memory, memory));
  profile.read_bytes_per_second = of_sheet(kServer.read, 0.8);
  profile.write_bytes_per_second = of_sheet(kServer.write, kServer.write_share);
  profile.device_memory = kServer.memory / 2;
  profile.host_memory = kServer.memory / 2;
  return profile;
}

}  // namespace

List<std::string_view> machine_names() {
  List<std::string_view> names;
  for (const Card& card : kCards) names.push_back(card.name);
  names.insert(names.end(), {"h200", "cpu-server"});
  return names;
}

Profile machine(std::string_view name) {
  const auto* card = std::find_if(std::begin(kCards), std::end(kCards),
                                  [&](const Card& each) { return each.name == name; });
  const bool known = name == "h200" || name == "cpu-server" || card != std::end(kCards);
  if (known) {
    Profile profile = name == "h200"         ? h200()
                      : name == "cpu-server" ? cpu_server()
                                             : from_sheet(*card);
    // Reading and writing at once share what the drive reads alone.
    add_shared_disk(profile, profile.read_bytes_per_second);
    return profile;
  }
  throw ConfigError(fmt::format("--machine {}: neither a file nor a machine that Ebb knows: {}",
                                name, fmt::join(machine_names(), ", ")));
}

}  // namespace ebb::plan
