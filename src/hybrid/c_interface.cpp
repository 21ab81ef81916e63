// The functions of C linkage. No exception leaves them: a failure is a return value other than 0
// (or null), and its text is kept for the thread that saw it.
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_fields.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "ebb/hybrid_optimizer.h"
#include "ebb/hybrid_optimizer_c.h"

struct ebb_hybrid {
  ebb::HybridOptimizer optimizer;
};

namespace {

using ebb::ConfigError;
using ebb::HybridOptimizer;

// Good until the next failure on the same thread.
thread_local std::string last_error;

// 0 or 1, as the functions return it.
template <class Call>
int guarded(Call call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
  } catch (...) {
    last_error = "a failure of an unknown kind";
  }
  return 1;
}

// Throws ConfigError for null: callers of C get a text instead of a crash.
HybridOptimizer& of(ebb_hybrid* optimizer) {
  if (optimizer == nullptr) throw ConfigError("the optimizer is a null pointer");
  return optimizer->optimizer;
}

std::string text_of(const char* text, std::string_view what) {
  if (text == nullptr) throw ConfigError(fmt::format("{} is a null pointer", what));
  return text;
}

template <class Value>
Value& at(Value* to, std::string_view what) {
  if (to == nullptr) throw ConfigError(fmt::format("{} is a null pointer", what));
  return *to;
}

// The sizes that a struct has had, by version of the header, the last first. A struct that grows
// gets its new size in front; callers that were compiled before keep the size they know.
template <class Struct>
struct Sizes;
template <>
struct Sizes<ebb_hybrid_parameter> {
  static constexpr std::string_view name = "ebb_hybrid_parameter";
  static constexpr std::array<std::size_t, 2> all = {64, 56};
};
template <>
struct Sizes<ebb_hybrid_group> {
  static constexpr std::string_view name = "ebb_hybrid_group";
  static constexpr std::array<std::size_t, 1> all = {64};
};
template <>
struct Sizes<ebb_hybrid_report> {
  static constexpr std::string_view name = "ebb_hybrid_report";
  static constexpr std::array<std::size_t, 1> all = {48};
};
template <>
struct Sizes<ebb_hybrid_placement> {
  static constexpr std::string_view name = "ebb_hybrid_placement";
  static constexpr std::array<std::size_t, 1> all = {48};
};

template <class Struct>
std::size_t size_of(const Struct& given) {
  static_assert(sizeof(Struct) == Sizes<Struct>::all.front());
  static_assert(offsetof(Struct, struct_size) == 0);
  for (const std::size_t size : Sizes<Struct>::all) {
    if (size == given.struct_size) return size;
  }
  throw ConfigError(
      fmt::format("{}: its struct_size is {}, expected {}: set it to sizeof({}), and compile with "
                  "the header of version {}, which this library has",
                  Sizes<Struct>::name, given.struct_size, fmt::join(Sizes<Struct>::all, " or "),
                  Sizes<Struct>::name, EBB_HYBRID_VERSION));
}

// Gives the caller the fields that its header has.
template <class Struct>
void give(Struct& to, Struct made) {
  made.struct_size = size_of(to);
  std::memcpy(&to, &made, made.struct_size);
}

// Settings are named as the fields of HybridOptimizer::Settings and Rule; what is not there keeps
// its default.
HybridOptimizer::Settings parse(const std::string& text) {
  HybridOptimizer::Settings s;
  ebb::JsonFields fields("the optimizer's settings", "setting");
  fields.add("rule", s.rule.name);
  fields.add("beta1", s.rule.beta1);
  fields.add("beta2", s.rule.beta2);
  fields.add("epsilon", s.rule.epsilon);
  fields.add("weight_decay", s.rule.weight_decay);
  fields.add("momentum", s.rule.momentum);
  fields.add("nesterov", s.rule.nesterov);
  fields.add("state_format", s.state_format);
  fields.add("states", s.states);
  fields.add("offload_fraction", s.offload_fraction);
  fields.add("host_fraction", s.host_fraction);
  fields.add("chunk_parameters", s.chunk_parameters);
  fields.add("window", s.window);
  fields.add("device_memory", s.device_memory);
  fields.add("host_memory", s.host_memory);
  fields.add("device", s.device);
  fields.add("threads", s.threads);
  fields.add("seed", s.seed);
  fields.fill(ebb::parse_json(text, "the optimizer's settings"));
  return s;
}

HybridOptimizer::Type type_of(std::int32_t type) {
  if (type != 0 && type != 1) {
    throw ConfigError(fmt::format("type {}: expected 0 for bf16 or 1 for fp32", type));
  }
  return type == 0 ? HybridOptimizer::Type::bf16 : HybridOptimizer::Type::fp32;
}

// Calls take(element) for those of a list, which are as long as the first one says. What a shorter
// one lacks is zero.
template <class Struct, class Take>
void for_each_of(const Struct* list, std::int64_t count, std::string_view what, Take take) {
  const std::size_t size =
      count > 0 ? size_of(at(list, fmt::format("the list of {}s", what))) : std::size_t{0};
  for (std::int64_t i = 0; i < count; ++i) {
    Struct element{};
    std::memcpy(&element, reinterpret_cast<const std::byte*>(list) + ebb::to_size(i) * size, size);
    if (element.struct_size != size) {
      throw ConfigError(
          fmt::format("{} {}: its struct_size is {}, expected {} as that of "
                      "the first of the list",
                      what, i, element.struct_size, size));
    }
    take(element);
  }
}

std::vector<HybridOptimizer::Parameter> parameters_of(const ebb_hybrid_parameter* list,
                                                      std::int64_t count) {
  std::vector<HybridOptimizer::Parameter> all;
  for_each_of(list, count, "parameter", [&](const ebb_hybrid_parameter& p) {
    all.push_back({.name = text_of(p.name, "the name of a parameter"),
                   .weight = p.weight,
                   .weight_type = type_of(p.weight_type),
                   .gradient = p.gradient,
                   .gradient_type = type_of(p.gradient_type),
                   .count = p.count,
                   .decays = p.decays != 0,
                   .group = p.group});
  });
  return all;
}

std::vector<HybridOptimizer::GroupStep> groups_of(const ebb_hybrid_group* list,
                                                  std::int64_t count) {
  const auto set = [](double number) {
    return std::isnan(number) ? std::nullopt : std::optional(number);
  };
  std::vector<HybridOptimizer::GroupStep> all;
  for_each_of(list, count, "group", [&](const ebb_hybrid_group& group) {
    all.push_back(
        {.learning_rate = group.learning_rate,
         .beta1 = set(group.beta1),
         .beta2 = set(group.beta2),
         .epsilon = set(group.epsilon),
         .weight_decay = set(group.weight_decay),
         .momentum = set(group.momentum),
         .nesterov = group.nesterov < 0 ? std::nullopt : std::optional(group.nesterov != 0)});
  });
  return all;
}

// Memory of the caller's that is read or written. Null only where nothing is.
template <class Value>
std::span<Value> span_at(Value* data, std::int64_t count, std::string_view what) {
  if (count > 0) at(data, what);
  if (count < 0) throw ConfigError(fmt::format("{}: {} elements", what, count));
  return {data, ebb::to_size(count)};
}

void give_report(ebb_hybrid_report* to, const HybridOptimizer::StepReport& made) {
  if (to == nullptr) return;
  give(*to, {.struct_size = 0,
             .step = made.step,
             .norm = made.norm,
             .clip_factor = made.clip_factor,
             .first_bad = made.first_bad,
             .applied = made.applied ? 1 : 0});
}

}  // namespace

extern "C" {

int ebb_hybrid_version(void) { return EBB_HYBRID_VERSION; }

const char* ebb_hybrid_error(void) { return last_error.c_str(); }

ebb_hybrid* ebb_hybrid_create(const char* settings, const ebb_hybrid_parameter* parameters,
                              int64_t count, void* stream) {
  ebb_hybrid* made = nullptr;
  guarded([&] {
    made = new ebb_hybrid{HybridOptimizer(parse(text_of(settings, "settings")),
                                          parameters_of(parameters, count), stream)};
  });
  return made;
}

void ebb_hybrid_destroy(ebb_hybrid* optimizer) { delete optimizer; }

int ebb_hybrid_set_gradient(ebb_hybrid* optimizer, int64_t parameter, const void* gradient) {
  return guarded([&] { of(optimizer).set_gradient(parameter, gradient); });
}

int ebb_hybrid_gradient_ready(ebb_hybrid* optimizer, int64_t parameter, void* stream) {
  return guarded([&] { of(optimizer).gradient_ready(parameter, stream); });
}

int ebb_hybrid_step(ebb_hybrid* optimizer, double learning_rate, double clip, void* stream,
                    ebb_hybrid_report* report) {
  return guarded([&] {
    // Before the step: afterwards it would be made and the failure untrue.
    if (report != nullptr) size_of(*report);
    give_report(report, of(optimizer).step(learning_rate, clip, stream));
  });
}

int ebb_hybrid_step_groups(ebb_hybrid* optimizer, const ebb_hybrid_group* groups, int64_t count,
                           double clip, double gradient_scale, void* stream,
                           ebb_hybrid_report* report) {
  return guarded([&] {
    if (report != nullptr) size_of(*report);
    give_report(report, of(optimizer).step(groups_of(groups, count), clip, gradient_scale, stream));
  });
}

int ebb_hybrid_leave_out(ebb_hybrid* optimizer, int64_t parameter) {
  return guarded([&] { of(optimizer).leave_out(parameter); });
}

int ebb_hybrid_discard(ebb_hybrid* optimizer) {
  return guarded([&] { of(optimizer).discard(); });
}

int ebb_hybrid_wait_for_weight(ebb_hybrid* optimizer, int64_t parameter, void* stream) {
  return guarded([&] { of(optimizer).wait_for_weight(parameter, stream); });
}

int ebb_hybrid_wait(ebb_hybrid* optimizer) {
  return guarded([&] { of(optimizer).wait(); });
}

int ebb_hybrid_weights_changed(ebb_hybrid* optimizer, void* stream) {
  return guarded([&] { of(optimizer).weights_changed(stream); });
}

int ebb_hybrid_save(ebb_hybrid* optimizer, const char* path) {
  return guarded([&] { of(optimizer).save(text_of(path, "the path")); });
}

int ebb_hybrid_load(ebb_hybrid* optimizer, const char* path, void* stream) {
  return guarded([&] { of(optimizer).load(text_of(path, "the path"), stream); });
}

int ebb_hybrid_read_master(ebb_hybrid* optimizer, int64_t parameter, float* to, int64_t count) {
  return guarded(
      [&] { of(optimizer).read_master(parameter, span_at(to, count, "the masters' place")); });
}

int ebb_hybrid_write_master(ebb_hybrid* optimizer, int64_t parameter, const float* from,
                            int64_t count, void* stream) {
  return guarded(
      [&] { of(optimizer).write_master(parameter, span_at(from, count, "the masters"), stream); });
}

int ebb_hybrid_steps_of(ebb_hybrid* optimizer, int64_t parameter, int64_t* steps) {
  return guarded([&] { at(steps, "steps") = of(optimizer).steps_of(parameter); });
}

int ebb_hybrid_set_steps(ebb_hybrid* optimizer, int64_t parameter, int64_t steps) {
  return guarded([&] { of(optimizer).set_steps(parameter, steps); });
}

int ebb_hybrid_read_moments(ebb_hybrid* optimizer, int64_t parameter, float* first, float* second,
                            int64_t count) {
  return guarded([&] {
    of(optimizer).read_moments(parameter, span_at(first, count, "the first moments' place"),
                               {second, second == nullptr ? 0 : ebb::to_size(count)});
  });
}

int ebb_hybrid_write_moments(ebb_hybrid* optimizer, int64_t parameter, const float* first,
                             const float* second, int64_t count) {
  return guarded([&] {
    of(optimizer).write_moments(parameter, span_at(first, count, "the first moments"),
                                {second, second == nullptr ? 0 : ebb::to_size(count)});
  });
}

int ebb_hybrid_stored_moments(ebb_hybrid* optimizer, int64_t parameter, int64_t* bytes) {
  return guarded([&] { at(bytes, "bytes") = of(optimizer).stored_moments(parameter); });
}

int ebb_hybrid_read_stored_moments(ebb_hybrid* optimizer, int64_t parameter, void* to,
                                   int64_t bytes) {
  return guarded([&] {
    of(optimizer).read_stored_moments(
        parameter, span_at(static_cast<std::byte*>(to), bytes, "the moments' place"));
  });
}

int ebb_hybrid_write_stored_moments(ebb_hybrid* optimizer, int64_t parameter, const void* from,
                                    int64_t bytes) {
  return guarded([&] {
    of(optimizer).write_stored_moments(
        parameter, span_at(static_cast<const std::byte*>(from), bytes, "the moments"));
  });
}

int ebb_hybrid_placement_of(ebb_hybrid* optimizer, ebb_hybrid_placement* placement) {
  return guarded([&] {
    const HybridOptimizer::Placement found = of(optimizer).placement();
    give(at(placement, "placement"), {.struct_size = 0,
                                      .device_bytes = found.device_bytes,
                                      .host_bytes = found.host_bytes,
                                      .resident_parameters = found.resident_parameters,
                                      .streamed_parameters = found.streamed_parameters,
                                      .host_parameters = found.host_parameters});
  });
}

int ebb_hybrid_traffic(ebb_hybrid* optimizer, int64_t* up_bytes, int64_t* down_bytes) {
  return guarded([&] {
    // Both are looked at before either is written: a failing call writes nothing.
    int64_t& up = at(up_bytes, "up_bytes");
    int64_t& down = at(down_bytes, "down_bytes");
    const HybridOptimizer::Traffic found = of(optimizer).traffic();
    up = found.up;
    down = found.down;
  });
}

int ebb_hybrid_digests(ebb_hybrid* optimizer, char* weights, char* moments) {
  return guarded([&] {
    // The header says how many bytes the caller gives for each: 33, with the zero at the end.
    char& to_weights = at(weights, "weights");
    char& to_moments = at(moments, "moments");
    std::strcpy(&to_weights, of(optimizer).weights_digest().c_str());
    std::strcpy(&to_moments, of(optimizer).moments_digest().c_str());
  });
}

}  // extern "C"
