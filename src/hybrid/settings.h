// The hybrid room: the optimizer as a library (ebb::HybridOptimizer). It cuts the caller's
// parameters into chunks, keeps their states where the settings say and moves and updates them on
// lanes. Rules, formats, updates and the store are states', lanes are exec's, the
// arithmetic is kernels'; of models, plans and the engine it knows nothing.
#pragma once

#include <vector>

#include "base/dtype.h"
#include "ebb/hybrid_optimizer.h"
#include "kernels/update.h"
#include "states/rules.h"

namespace ebb::hybrid {

using Settings = HybridOptimizer::Settings;

// Settings as they count: parsed, checked, with defaults filled in.
struct Choices {
  states::Rule rule;
  kernels::StateFormat format = kernels::StateFormat::exact;
  double offload_fraction = 0;
  double host_fraction = 0;           // part of the above
  std::int64_t chunk_parameters = 0;  // a multiple of the norm's block
};

// For so many parameters. Throws ConfigError that names the setting, the value and what was
// expected.
Choices parse_settings(const Settings& settings, std::int64_t parameters);

// A parameter as the caller gave it, with what follows from it.
struct Parameter {
  std::string name;
  // The caller's memory, on the device, borrowed for as long as the optimizer lives. A gradient may
  // be null until set_gradient().
  std::byte* weight = nullptr;
  DType weight_type = DType::bf16;
  const std::byte* gradient = nullptr;
  DType gradient_type = DType::bf16;
  std::int64_t count = 0;
  bool decays = true;
  std::int64_t group = 0;
  std::uint64_t key = 0;  // of its name: random numbers do not depend on the order of the list

  Bytes weight_bytes() const { return count * size_of(weight_type); }
  Bytes gradient_bytes() const { return count * size_of(gradient_type); }
};

// Throws ConfigError where a gradient's new place is that of a weight. Other gradients, which may
// be about to move, too, are GradientsInUse's.
void check_apart(const std::vector<Parameter>& all, const Parameter& of, const void* gradient);

// Elements of all parameters together.
std::int64_t total_count(const std::vector<Parameter>& parameters);

// Throws ConfigError for an empty list, for names that are missing or there twice, and for memory
// that is null, misaligned, empty or shared.
std::vector<Parameter> check_parameters(const std::vector<HybridOptimizer::Parameter>& given);

// Throws ConfigError where a gradient of the parameter cannot be there.
void check_gradient(const Parameter& parameter, const void* gradient);

}  // namespace ebb::hybrid
