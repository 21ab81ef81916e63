#include "plan/profile.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "base/printable.h"
#include "ebb/error.h"

namespace ebb::plan {
namespace {

constexpr std::string_view kFormat = "ebb machine profile";
constexpr int kVersion = 5;
constexpr int kNoBlocks = 4;  // what the CPU does with a model's blocks was not known
constexpr int kNoDisk = 3;    // what a disk does was not known
constexpr int kOneRate = 2;   // nor were sums apart from updates by the CPU

constexpr std::string_view kSeconds = "s";
constexpr std::string_view kSharedDisk = "disk";
constexpr std::array<ProfileField, 17> kFields = {{
    {"matmul_flops", "matrix products", "FLOP/s", &Profile::matmul_flops, &Cost::flops},
    {"narrow_flops", "narrow products", "FLOP/s", &Profile::narrow_flops, &Cost::narrow_flops},
    {"attention_flops", "attention", "FLOP/s", &Profile::attention_flops, &Cost::attention_flops},
    {"attention_backward_flops", "attention, backward", "FLOP/s",
     &Profile::attention_backward_flops, &Cost::attention_backward_flops},
    {"pass_bytes_per_second", "norms, activations, loss", "B/s", &Profile::pass_bytes_per_second,
     &Cost::pass_bytes},
    {"device_bytes_per_second", "updates on the device", "B/s", &Profile::device_bytes_per_second,
     &Cost::bytes},
    {"up_bytes_per_second", "host to device", "B/s", &Profile::up_bytes_per_second, nullptr},
    {"down_bytes_per_second", "device to host", "B/s", &Profile::down_bytes_per_second, nullptr},
    {"host_bytes_per_second", "updates by the CPU", "B/s", &Profile::host_bytes_per_second,
     nullptr},
    {"sum_bytes_per_second", "sums of gradients by the CPU", "B/s", &Profile::sum_bytes_per_second,
     nullptr},
    {"cpu_flops", "blocks by the CPU", "FLOP/s", &Profile::cpu_flops, nullptr},
    {"cpu_read_bytes_per_second", "weights read by the CPU", "B/s",
     &Profile::cpu_read_bytes_per_second, nullptr},
    {"read_bytes_per_second", "disk to host", "B/s", &Profile::read_bytes_per_second, nullptr},
    {"write_bytes_per_second", "host to disk", "B/s", &Profile::write_bytes_per_second, nullptr},
    {"task_seconds", "start of a task", kSeconds, &Profile::task_seconds, nullptr},
    {"copy_seconds", "start of a copy", kSeconds, &Profile::copy_seconds, nullptr},
    {"call_seconds", "start of an op", kSeconds, &Profile::call_seconds, &Cost::calls},
}};

Json figure_json(const Figure& figure) {
  return {{"value", figure.value}, {"source", figure.source}};
}

// Words of a file end up on terminals.
std::string words_of(const Json& json) { return printable(json.get<std::string>(), 200); }

Figure read_figure(const Json& json, std::string_view key) {
  const Json& figure = json.at(std::string(key));
  const double value = figure.at("value").get<double>();
  if (!std::isfinite(value) || value <= 0) {
    throw FormatError(fmt::format("{} is {}; expected a number above 0", in_quotes(key), value));
  }
  return {value, words_of(figure.at("source"))};
}

// A number that JSON could round or wrap is none.
std::int64_t whole(const Json& json, const char* key, std::int64_t least, std::int64_t most) {
  const Json& number = json.at(key);
  const bool wraps =
      number.is_number_unsigned() && number.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  if (!number.is_number_integer() || wraps || number.get<std::int64_t>() < least ||
      number.get<std::int64_t>() > most) {
    throw FormatError(
        fmt::format("{} should be a whole number from {} to {}", in_quotes(key), least, most));
  }
  return number.get<std::int64_t>();
}

const ProfileField& field_named(std::string_view name) {
  const auto* field = std::find_if(kFields.begin(), kFields.end(),
                                   [&](const ProfileField& each) { return each.name == name; });
  if (field == kFields.end()) {
    throw FormatError(fmt::format("there is no figure {}", in_quotes(name)));
  }
  return *field;
}

Shared rough_cores(int threads) {
  const double all = threads;
  return {.name = "cores",
          .capacity = {all, "rule of thumb"},
          .wants = {all, 1, 1, all, all, 0, 0, all}};
}

Json by_draw(const ByDraw& numbers) {
  Json json;
  for (const Draw draw : kDraws) {
    if (draw != Draw::nothing) {
      json[std::string(name_of(draw))] = numbers[draw];
    }
  }
  return json;
}

ByDraw read_by_draw(const Json& json, std::string_view what, int version) {
  ByDraw numbers{};
  for (const Draw draw : kDraws) {
    const bool of_disk = draw == Draw::read || draw == Draw::write;
    if (draw == Draw::nothing || (of_disk && version <= kNoDisk)) continue;
    const bool as_update = draw == Draw::block && version <= kNoBlocks;
    const bool by_cpu = draw == Draw::update || draw == Draw::sum || as_update;
    const bool as_host = by_cpu && version == kOneRate;
    const std::string_view name = as_host     ? "host"
                                  : as_update ? name_of(Draw::update)
                                              : name_of(draw);
    const double number = json.at(std::string(name)).get<double>();
    if (!std::isfinite(number) || number < 0) {
      throw FormatError(fmt::format("a '{}' of {}; expected 0 or more", what, number));
    }
    numbers[draw] = number;
  }
  return numbers;
}

}  // namespace

std::span<const ProfileField> profile_fields() { return kFields; }

Profile with_variant(Profile profile, std::string_view variant) {
  const auto found = profile.variants.find(std::string(variant));
  if (found == profile.variants.end()) return profile;
  for (const auto& [name, figure] : found->second) profile.*field_named(name).figure = figure;
  return profile;
}

Json to_json(const Profile& profile) {
  Json figures;
  for (const ProfileField& field : kFields) {
    figures[std::string(field.name)] = figure_json(profile.*field.figure);
  }
  Json variants = Json::object();
  for (const auto& [variant, others] : profile.variants) {
    for (const auto& [name, figure] : others) variants[variant][name] = figure_json(figure);
  }
  Json shared = Json::array();
  for (const Shared& each : profile.shared) {
    shared.push_back({{"name", each.name},
                      {"capacity", figure_json(each.capacity)},
                      {"wants", by_draw(each.wants)},
                      {"beside", by_draw(each.beside)}});
  }
  return {{"format", kFormat},
          {"version", kVersion},
          {"name", profile.name},
          {"device", profile.device},
          {"device_memory", profile.device_memory},
          {"host_memory", profile.host_memory},
          {"cores", profile.cores},
          {"figures", figures},
          {"variants", variants},
          {"shared", shared}};
}

Profile parse_profile(const Json& json, std::string_view where) {
  try {
    if (json.at("format") != kFormat) throw FormatError("another format");
    const auto version = static_cast<int>(whole(json, "version", kOneRate, kVersion));
    Profile profile;
    profile.name = words_of(json.at("name"));
    profile.device = json.at("device").get<std::string>();
    constexpr Bytes most = Bytes{1} << 50;
    profile.device_memory = whole(json, "device_memory", 0, most);
    profile.host_memory = whole(json, "host_memory", 0, most);
    profile.cores = static_cast<int>(whole(json, "cores", 1, 1 << 16));
    if (profile.device != "cpu" && profile.device != "cuda") {
      throw FormatError(
          fmt::format("'device' is {}; expected cpu or cuda", in_quotes(profile.device)));
    }
    for (const ProfileField& field : kFields) {
      const bool of_disk = field.figure == &Profile::read_bytes_per_second ||
                           field.figure == &Profile::write_bytes_per_second;
      const bool of_blocks = field.figure == &Profile::cpu_flops ||
                             field.figure == &Profile::cpu_read_bytes_per_second;
      if ((of_disk && version <= kNoDisk) || (of_blocks && version <= kNoBlocks)) continue;
      const bool missing = version == kOneRate && field.figure == &Profile::sum_bytes_per_second;
      profile.*field.figure =
          read_figure(json.at("figures"), missing ? "host_bytes_per_second" : field.name);
    }
    if (version <= kNoBlocks) {
      profile.cpu_flops = rough_cpu_flops(profile.cores);
      profile.cpu_read_bytes_per_second = profile.host_bytes_per_second;
    }
    for (const auto& [variant, figures] : json.at("variants").items()) {
      for (const auto& [name, _] : figures.items()) {
        profile.variants[printable(variant, 200)][std::string(field_named(name).name)] =
            read_figure(figures, name);
      }
    }
    for (const Json& each : json.at("shared")) {
      Shared shared{.name = words_of(each.at("name")), .capacity = read_figure(each, "capacity")};
      shared.wants = read_by_draw(each.at("wants"), "wants", version);
      if (version > kOneRate) shared.beside = read_by_draw(each.at("beside"), "beside", version);
      profile.shared.push_back(std::move(shared));
    }
    const bool knows_disk =
        std::any_of(profile.shared.begin(), profile.shared.end(),
                    [](const Shared& shared) { return shared.name == kSharedDisk; });
    if (!knows_disk) add_shared_disk(profile, profile.read_bytes_per_second);
    return profile;
  } catch (const std::exception& error) {
    throw FormatError(
        fmt::format("{}: not a machine profile of this version of Ebb ({}); `ebb probe` makes one",
                    where, error.what()));
  }
}

Figure rough_cpu_flops(int threads) { return {50e9 * threads, "rule of thumb"}; }

Profile rough_cpu_profile(int threads) {
  // A server core does some 50 GFLOP/s of fp32 and shares memory of some 10 GB/s a core.
  constexpr std::string_view rough = "rule of thumb";
  const double cores = threads;
  Profile profile{.name = fmt::format("cpu, {} threads (rule of thumb, not measured)", threads),
                  .matmul_flops = {50e9 * cores, rough},
                  .narrow_flops = {40e9 * cores, rough},
                  .attention_flops = {25e9 * cores, rough},
                  .attention_backward_flops = {25e9 * cores, rough},
                  .pass_bytes_per_second = {4e9 * cores, rough},
                  .device_bytes_per_second = {6e9 * cores, rough},
                  .up_bytes_per_second = {6e9, rough},
                  .down_bytes_per_second = {6e9, rough},
                  .host_bytes_per_second = {6e9 * cores, rough},
                  .sum_bytes_per_second = {6e9 * cores, rough},
                  .cpu_flops = rough_cpu_flops(threads),
                  .cpu_read_bytes_per_second = {6e9 * cores, rough},
                  .task_seconds = {10e-6, rough},
                  .copy_seconds = {1e-6, rough},
                  .call_seconds = {5e-6, rough},
                  .shared = {rough_cores(threads)},
                  .device = "cpu",
                  .cores = threads};
  add_shared_disk(profile, profile.read_bytes_per_second);
  return profile;
}

Profile rough_gpu_profile(int threads) {
  constexpr std::string_view rough = "rule of thumb";
  Profile profile{.name = fmt::format(
                      "a GPU of the H100 class, {} threads (rule of thumb, not measured)", threads),
                  .matmul_flops = {650e12, rough},
                  .narrow_flops = {400e12, rough},
                  .attention_flops = {450e12, rough},
                  .attention_backward_flops = {350e12, rough},
                  .pass_bytes_per_second = {2.5e12, rough},
                  .device_bytes_per_second = {3.5e12, rough},
                  .up_bytes_per_second = {50e9, rough},
                  .down_bytes_per_second = {50e9, rough},
                  .host_bytes_per_second = {std::min(120e9, 4e9 * threads), rough},
                  .sum_bytes_per_second = {std::min(120e9, 4e9 * threads), rough},
                  .cpu_flops = rough_cpu_flops(threads),
                  .cpu_read_bytes_per_second = {std::min(130e9, 8e9 * threads), rough},
                  .task_seconds = {5e-6, rough},
                  .copy_seconds = {5e-6, rough},
                  .call_seconds = {2e-6, rough},
                  .shared = {{.name = "link", .capacity = {95e9, rough}, .wants = {0, 50e9, 50e9}}},
                  .variants = {{"fp32",
                                {{"matmul_flops", {50e12, rough}},
                                 {"narrow_flops", {40e12, rough}},
                                 {"attention_flops", {20e12, rough}},
                                 {"attention_backward_flops", {15e12, rough}}}}},
                  .device = "cuda",
                  .cores = threads};
  add_shared_disk(profile, profile.read_bytes_per_second);
  return profile;
}

void add_shared_disk(Profile& profile, const Figure& both) {
  std::erase_if(profile.shared,
                [](const Shared& shared) { return shared.name.starts_with(kSharedDisk); });
  const auto shared = [&](std::string_view name, const Figure& capacity, double reads,
                          double writes) {
    Shared made{.name = std::string(name), .capacity = capacity};
    made.wants[Draw::read] = reads;
    made.wants[Draw::write] = writes;
    profile.shared.push_back(std::move(made));
  };
  const Figure &read = profile.read_bytes_per_second, &write = profile.write_bytes_per_second;
  shared("disk reads", read, read, 0);
  shared("disk writes", write, 0, write);
  shared(kSharedDisk, both, read, read);
}

double seconds_of(const Cost& cost, const ProfileField& field, const Profile& profile) {
  const double amount = field.work == nullptr ? 0 : cost.*field.work;
  if (amount == 0) return 0;
  const double speed = profile.*field.figure;
  return field.unit == kSeconds ? amount * speed : amount / speed;
}

double reading_seconds(const Cost& cost, const Profile& profile) {
  const double computing = cost.flops / profile.matmul_flops +
                           cost.narrow_flops / profile.narrow_flops +
                           cost.attention_flops / profile.attention_flops;
  return std::max(0.0, cost.read_bytes / profile.device_bytes_per_second - computing);
}

double cpu_seconds(const Cost& cost, const Profile& profile) {
  const double computing =
      (cost.flops + cost.narrow_flops + cost.attention_flops) / profile.cpu_flops;
  const double rate = profile.cpu_read_bytes_per_second;
  return std::max(computing, cost.read_bytes / rate) + cost.pass_bytes / rate +
         cost.calls * profile.call_seconds;
}

double predicted_seconds(const Task& task, const LaneInfo& lane, const Profile& profile) {
  const auto moved = static_cast<double>(task.usual < 0 ? task.moved : task.usual);
  double seconds = profile.task_seconds;
  switch (lane.kind) {
    case LaneKind::compute:
      for (const ProfileField& field : kFields) seconds += seconds_of(task.cost, field, profile);
      if (task.cost.read_bytes > 0) seconds += reading_seconds(task.cost, profile);
      break;
    case LaneKind::cpu:
      if (task.draw == Draw::block) {
        seconds += cpu_seconds(task.cost, profile);
        break;
      }
      seconds += moved / (task.draw == Draw::sum ? profile.sum_bytes_per_second
                                                 : profile.host_bytes_per_second);
      break;
    case LaneKind::network: seconds += profile.copy_seconds + moved / lane.bytes_per_second; break;
    case LaneKind::transfer: {
      const Figure& rate = lane.to == Tier::device     ? profile.up_bytes_per_second
                           : lane.from == Tier::device ? profile.down_bytes_per_second
                           : lane.to == Tier::host     ? profile.read_bytes_per_second
                                                       : profile.write_bytes_per_second;
      seconds += profile.copy_seconds +
                 moved / (lane.bytes_per_second > 0 ? lane.bytes_per_second : rate.value);
      break;
    }
  }
  return seconds;
}

}  // namespace ebb::plan
