#include "hybrid/settings.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "base/chunking.h"
#include "base/in_quotes.h"
#include "base/machine.h"
#include "base/rng.h"
#include "ebb/error.h"
#include "kernels/optimizer_ops.h"

namespace ebb::hybrid {
namespace {

template <class Value>
void require(bool holds, std::string_view setting, const Value& value, std::string_view expected) {
  if (!holds) throw ConfigError(fmt::format("{} {}: expected {}", setting, value, expected));
}

states::Rule make_rule(const HybridOptimizer::Rule& wish) {
  return states::make_rule({.name = wish.name,
                            .beta1 = wish.beta1,
                            .beta2 = wish.beta2,
                            .epsilon = wish.epsilon,
                            .momentum = wish.momentum,
                            .nesterov = wish.nesterov,
                            .weight_decay = wish.weight_decay});
}

void require_share(std::string_view setting, double value) {
  require(value >= 0 && value <= 1, setting, value, "0 to 1");
}

DType dtype_of(HybridOptimizer::Type type) {
  return type == HybridOptimizer::Type::bf16 ? DType::bf16 : DType::f32;
}

// Part of the numbers of compact formats, and so of what a saved state continues: not to be
// changed.
std::uint64_t key_of(std::string_view name) {
  std::uint64_t key = name.size();
  for (const char c : name) key = mix_bits(key ^ static_cast<unsigned char>(c));
  return key;
}

bool misaligned(const void* pointer, DType type) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(size_of(type)) !=
         0;
}

// Two of a list's tensors in the same memory: one of them would be updated twice, or be its own
// gradient.
void check_overlaps(const std::vector<Parameter>& all) {
  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
    const Parameter* parameter;
    std::string_view what;
  };
  std::vector<Range> ranges;
  const auto add = [&](const Parameter& p, const void* data, Bytes bytes, std::string_view what) {
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    if (data != nullptr) {
      ranges.push_back({begin, begin + static_cast<std::uintptr_t>(bytes), &p, what});
    }
  };
  for (const Parameter& p : all) {
    add(p, p.weight, p.weight_bytes(), "weight");
    add(p, p.gradient, p.gradient_bytes(), "gradient");
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const Range& a = ranges[i - 1];
    const Range& b = ranges[i];
    if (b.begin < a.end) {
      throw ConfigError(fmt::format(
          "the {} of {} and the {} of {} share memory: a tensor that is used twice is one "
          "parameter, with one gradient",
          a.what, in_quotes(a.parameter->name), b.what, in_quotes(b.parameter->name)));
    }
  }
}

}  // namespace

void check_apart(const std::vector<Parameter>& all, const Parameter& of, const void* gradient) {
  const auto* begin = static_cast<const std::byte*>(gradient);
  // By std::less, as the pointers are into different allocations.
  for (const Parameter& other : all) {
    const std::byte* weight = other.weight;
    if (std::less<>{}(begin, weight + other.weight_bytes()) &&
        std::less<>{}(weight, begin + of.gradient_bytes())) {
      throw ConfigError(fmt::format("the gradient of {} and the weight of {} share memory",
                                    in_quotes(of.name), in_quotes(other.name)));
    }
  }
}

std::int64_t total_count(const std::vector<Parameter>& parameters) {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters) total += parameter.count;
  return total;
}

Choices parse_settings(const Settings& s, std::int64_t parameters) {
  Choices choices;
  choices.rule = make_rule(s.rule);
  choices.format = states::parse_state_format(s.state_format);
  states::validate(choices.rule, choices.format);

  require(s.states == "resident" || s.states == "stream" || s.states == "host", "states", s.states,
          "resident, stream or host");
  choices.offload_fraction = s.offload_fraction.value_or(s.states == "resident" ? 0 : 1);
  require_share("offload_fraction", choices.offload_fraction);
  choices.host_fraction =
      s.host_fraction.value_or(s.states == "host" ? choices.offload_fraction : 0);
  require_share("host_fraction", choices.host_fraction);
  require(choices.offload_fraction == 0 || s.states != "resident", "offload_fraction",
          choices.offload_fraction,
          "0, or states stream or host, as states resident keeps them all");
  require(choices.host_fraction <= choices.offload_fraction, "host_fraction", choices.host_fraction,
          fmt::format("at most the offload_fraction {}, which it is a part of",
                      choices.offload_fraction));
  require(s.states != "host" || choices.host_fraction == choices.offload_fraction, "host_fraction",
          choices.host_fraction,
          "none, or states stream: with states host, all that leaves is there");

  require(s.chunk_parameters >= 0 && s.chunk_parameters <= std::int64_t{1} << 40,
          "chunk_parameters", s.chunk_parameters, "0 to 2^40");
  const std::int64_t wanted =
      s.chunk_parameters > 0 ? s.chunk_parameters : default_chunk_parameters(parameters);
  // Rounded up to whole blocks of the norm, so that no sum of squares spans two chunks.
  choices.chunk_parameters = kernels::norm_blocks(wanted) * kernels::kNormBlock;
  require(s.window >= 0, "window", s.window, "bytes, or 0 for four chunks' worth");
  require(s.device_memory.value_or(0) >= 0, "device_memory", s.device_memory.value_or(0), "bytes");
  require(s.host_memory.value_or(0) >= 0, "host_memory", s.host_memory.value_or(0), "bytes");
  require(s.threads >= 0 && s.threads <= kMostThreads, "threads", s.threads,
          fmt::format("0 (all that may be used) to {}", kMostThreads));
  return choices;
}

std::vector<Parameter> check_parameters(const std::vector<HybridOptimizer::Parameter>& given) {
  if (given.empty()) throw ConfigError("the list of parameters is empty: there is nothing to do");
  std::vector<Parameter> all;
  std::unordered_set<std::string_view> names;
  std::int64_t total = 0;
  for (const HybridOptimizer::Parameter& p : given) {
    const auto refuse = [&](std::string_view what) {
      throw ConfigError(fmt::format("parameter {} {}: {}", all.size(), in_quotes(p.name), what));
    };
    if (p.name.empty()) refuse("it has no name, which the saved state would need");
    if (!names.insert(p.name).second) refuse("there are two of that name");
    // So that no sum of bytes overflows: all planes of an element are far below 64.
    constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 64;
    if (p.count <= 0 || p.count > most - total) {
      refuse(fmt::format("it has {} elements, expected 1 or more", p.count));
    }
    total += p.count;
    if (p.weight == nullptr) refuse("its weight is a null pointer");
    if (misaligned(p.weight, dtype_of(p.weight_type))) {
      refuse(fmt::format("its weight is at {}, which is not aligned to an element", p.weight));
    }
    all.push_back({.name = p.name,
                   .weight = static_cast<std::byte*>(p.weight),
                   .weight_type = dtype_of(p.weight_type),
                   .gradient = static_cast<const std::byte*>(p.gradient),
                   .gradient_type = dtype_of(p.gradient_type),
                   .count = p.count,
                   .decays = p.decays,
                   .group = p.group,
                   .key = key_of(p.name)});
    if (p.group < 0) refuse(fmt::format("its group is {}, expected an index from 0 on", p.group));
    if (p.gradient != nullptr) check_gradient(all.back(), p.gradient);
  }
  check_overlaps(all);
  return all;
}

void check_gradient(const Parameter& parameter, const void* gradient) {
  if (gradient == nullptr) {
    throw ConfigError(fmt::format(
        "the gradient of {} is a null pointer: give it with the parameter or with set_gradient()",
        in_quotes(parameter.name)));
  }
  if (misaligned(gradient, parameter.gradient_type)) {
    throw ConfigError(fmt::format("the gradient of {} is at {}, which is not aligned to an element",
                                  in_quotes(parameter.name), gradient));
  }
}

}  // namespace ebb::hybrid
