#include "plan/profile.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::plan {
namespace {

constexpr std::string_view kFormat = "ebb machine profile";
constexpr int kVersion = 1;

struct Field {
  const char* name;
  Figure Profile::*figure;
};
constexpr std::array<Field, 6> kFields = {{
    {"matmul_flops", &Profile::matmul_flops},
    {"device_bytes_per_second", &Profile::device_bytes_per_second},
    {"up_bytes_per_second", &Profile::up_bytes_per_second},
    {"down_bytes_per_second", &Profile::down_bytes_per_second},
    {"host_bytes_per_second", &Profile::host_bytes_per_second},
    {"task_seconds", &Profile::task_seconds},
}};

Json figure_json(const Figure& figure) {
  return {{"value", figure.value}, {"source", figure.source}};
}

Figure read_figure(const Json& json, const char* key) {
  const Json& figure = json.at(key);
  const double value = figure.at("value").get<double>();
  if (!std::isfinite(value) || value < 0) {
    throw FormatError(fmt::format("'{}' is {}; expected a number above 0", key, value));
  }
  return {value, figure.at("source").get<std::string>()};
}

Shared rough_cores(int threads) {
  const double all = threads;
  return {.name = "cores", .capacity = {all, "rule of thumb"}, .wants = {all, 1, 1, all}};
}

}  // namespace

Json to_json(const Profile& profile) {
  Json figures;
  for (const Field& field : kFields) figures[field.name] = figure_json(profile.*field.figure);
  Json shared = Json::array();
  for (const Shared& each : profile.shared) {
    Json wants;
    for (const Lane lane : kLanes) {
      wants[std::string(name_of(lane))] = each.wants[static_cast<std::size_t>(lane)];
    }
    shared.push_back(
        {{"name", each.name}, {"capacity", figure_json(each.capacity)}, {"wants", wants}});
  }
  return {{"format", kFormat},
          {"version", kVersion},
          {"name", profile.name},
          {"device", profile.device},
          {"device_memory", profile.device_memory},
          {"host_memory", profile.host_memory},
          {"cores", profile.cores},
          {"figures", figures},
          {"shared", shared}};
}

Profile parse_profile(const Json& json, std::string_view where) {
  try {
    if (json.at("format") != kFormat || json.at("version") != kVersion) {
      throw FormatError("another format or version");
    }
    Profile profile;
    profile.name = json.at("name").get<std::string>();
    profile.device = json.at("device").get<std::string>();
    profile.device_memory = json.at("device_memory").get<Bytes>();
    profile.host_memory = json.at("host_memory").get<Bytes>();
    profile.cores = json.at("cores").get<int>();
    for (const Field& field : kFields) {
      profile.*field.figure = read_figure(json.at("figures"), field.name);
      if (profile.*field.figure == 0) {
        throw FormatError(fmt::format("'{}' is 0; expected a number above 0", field.name));
      }
    }
    for (const Json& each : json.at("shared")) {
      Shared shared{.name = each.at("name").get<std::string>(),
                    .capacity = read_figure(each, "capacity")};
      for (const Lane lane : kLanes) {
        shared.wants[static_cast<std::size_t>(lane)] =
            each.at("wants").at(std::string(name_of(lane))).get<double>();
      }
      profile.shared.push_back(std::move(shared));
    }
    return profile;
  } catch (const std::exception& error) {
    throw FormatError(
        fmt::format("{}: not a machine profile of this version of Ebb ({}); `ebb probe` makes one",
                    where, error.what()));
  }
}

Profile rough_cpu_profile(int threads) {
  // A server core does some 50 GFLOP/s of fp32 and shares memory of some 10 GB/s a core.
  constexpr std::string_view rough = "rule of thumb";
  const double cores = threads;
  return {.name = fmt::format("cpu, {} threads (rule of thumb, not measured)", threads),
          .matmul_flops = {50e9 * cores, rough},
          .device_bytes_per_second = {6e9 * cores, rough},
          .up_bytes_per_second = {6e9, rough},
          .down_bytes_per_second = {6e9, rough},
          .host_bytes_per_second = {6e9 * cores, rough},
          .task_seconds = {10e-6, rough},
          .shared = {rough_cores(threads)},
          .device = "cpu",
          .cores = threads};
}

Profile rough_gpu_profile(int threads) {
  constexpr std::string_view rough = "rule of thumb";
  return {.name = fmt::format("a GPU of the H100 class, {} threads (rule of thumb, not measured)",
                              threads),
          .matmul_flops = {650e12, rough},
          .device_bytes_per_second = {3.5e12, rough},
          .up_bytes_per_second = {50e9, rough},
          .down_bytes_per_second = {50e9, rough},
          .host_bytes_per_second = {std::min(120e9, 4e9 * threads), rough},
          .task_seconds = {10e-6, rough},
          .shared = {{.name = "link", .capacity = {95e9, rough}, .wants = {0, 50e9, 50e9, 0}}},
          .device = "cuda",
          .cores = threads};
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
