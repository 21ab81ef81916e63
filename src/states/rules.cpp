#include "states/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/rng.h"
#include "ebb/error.h"
#include "states/require.h"

namespace ebb::states {
namespace {

using kernels::StateFormat;

constexpr std::array kFormats = {StateFormat::exact, StateFormat::bf16, StateFormat::int8};

std::string_view name(const AdamW&) { return "adamw"; }
std::string_view name(const Adam&) { return "adam"; }
std::string_view name(const Lion&) { return "lion"; }
std::string_view name(const Sgd&) { return "sgd"; }
std::string_view name(const Adagrad&) { return "adagrad"; }

// All of these are false for NaN.
void require_share(std::string_view flag, double value) {
  require(value >= 0 && value < 1, flag, value, "0 or more, below 1");
}

// A parameter whose gradients were all zero divides 0 by epsilon, so it must not vanish in fp32.
void require_epsilon(double value) {
  require(value >= std::numeric_limits<float>::min() && value <= 1, "--epsilon", value,
          "1.2e-38 to 1");
}

void check(const AdamW& rule) {
  require_share("--beta1", rule.beta1);
  require_share("--beta2", rule.beta2);
  require_epsilon(rule.epsilon);
}
void check(const Adam& rule) {
  require_share("--beta1", rule.beta1);
  require_share("--beta2", rule.beta2);
  require_epsilon(rule.epsilon);
}
void check(const Lion& rule) {
  require_share("--beta1", rule.beta1);
  require_share("--beta2", rule.beta2);
}
void check(const Sgd& rule) { require_share("--momentum", rule.momentum); }
void check(const Adagrad& rule) { require_epsilon(rule.epsilon); }

// Steps between those that drop denormals: few enough that hardly a moment is one for long.
constexpr std::int64_t kDenormalsEvery = 32;

// The numbers of a step besides those of its rule.
struct Now {
  double rate;
  double step;
  double decay;  // the rule's weight decay, or 0 where nothing decays
  std::uint64_t rounding_key;

  float decay_factor() const { return static_cast<float>(1.0 - rate * decay); }
};

// The numbers that Adam and AdamW have in common.
template <class StepNumbers, class AnyAdam>
StepNumbers adam_numbers(const AnyAdam& rule, const Now& now) {
  StepNumbers result;
  result.beta1 = static_cast<float>(rule.beta1);
  result.one_minus_beta1 = static_cast<float>(1.0 - rule.beta1);
  result.beta2 = static_cast<float>(rule.beta2);
  const double one_minus_beta1 = 1.0 - rule.beta1;
  result.square_factor =
      static_cast<float>((1.0 - rule.beta2) / (one_minus_beta1 * one_minus_beta1));
  const double step_size = now.rate / (1.0 - std::pow(rule.beta1, now.step));
  const double root_factor = 1.0 / std::sqrt(1.0 - std::pow(rule.beta2, now.step)) / step_size;
  const double epsilon = rule.epsilon / step_size;
  constexpr double kMost = std::numeric_limits<float>::max();
  const bool moves = step_size > 0 && root_factor < kMost && epsilon < kMost;
  result.root_factor = moves ? static_cast<float>(root_factor) : 1.0f;
  result.epsilon = moves ? std::max(static_cast<float>(epsilon), std::numeric_limits<float>::min())
                         : std::numeric_limits<float>::infinity();
  return result;
}

kernels::Step numbers(const AdamW& rule, const Now& now) {
  auto result = adam_numbers<kernels::AdamWStep>(rule, now);
  result.decay_factor = now.decay_factor();
  result.rounding_key = now.rounding_key;
  return result;
}

kernels::Step numbers(const Adam& rule, const Now& now) {
  auto result = adam_numbers<kernels::AdamStep>(rule, now);
  result.decay = static_cast<float>(now.decay);
  return result;
}

kernels::Step numbers(const Lion& rule, const Now& now) {
  return kernels::LionStep{.beta1 = static_cast<float>(rule.beta1),
                           .one_minus_beta1 = static_cast<float>(1.0 - rule.beta1),
                           .beta2 = static_cast<float>(rule.beta2),
                           .one_minus_beta2 = static_cast<float>(1.0 - rule.beta2),
                           .rate = static_cast<float>(now.rate),
                           .decay_factor = now.decay_factor()};
}

kernels::Step numbers(const Sgd& rule, const Now& now) {
  return kernels::SgdStep{.momentum = static_cast<float>(rule.momentum),
                          .rate = static_cast<float>(now.rate),
                          .decay = static_cast<float>(now.decay),
                          .nesterov = rule.nesterov};
}

kernels::Step numbers(const Adagrad& rule, const Now& now) {
  return kernels::AdagradStep{.rate = static_cast<float>(now.rate),
                              .epsilon = static_cast<float>(rule.epsilon),
                              .decay = static_cast<float>(now.decay)};
}

// `find` gives the address of the member, or null where the rule has none.
template <class Value, class Find>
void set(Rule& rule, const std::optional<Value>& wish, std::string_view flag, Find find) {
  if (!wish) return;
  Value* found = std::visit(find, rule);
  if (found == nullptr) {
    throw ConfigError(
        fmt::format("{}: --optimizer {} does not have it; leave it out", flag, name_of(rule)));
  }
  *found = *wish;
}

}  // namespace

Rule make_rule(const RuleOptions& options) {
  return with_options(parse_rule(options.name), options);
}

Rule with_options(Rule rule, const RuleOptions& options) {
  set(rule, options.beta1, "--beta1", [](auto& r) -> double* {
    if constexpr (requires { r.beta1; }) return &r.beta1;
    return nullptr;
  });
  set(rule, options.beta2, "--beta2", [](auto& r) -> double* {
    if constexpr (requires { r.beta2; }) return &r.beta2;
    return nullptr;
  });
  set(rule, options.epsilon, "--epsilon", [](auto& r) -> double* {
    if constexpr (requires { r.epsilon; }) return &r.epsilon;
    return nullptr;
  });
  set(rule, options.momentum, "--momentum", [](auto& r) -> double* {
    if constexpr (requires { r.momentum; }) return &r.momentum;
    return nullptr;
  });
  set(rule, options.nesterov, "--nesterov", [](auto& r) -> bool* {
    if constexpr (requires { r.nesterov; }) return &r.nesterov;
    return nullptr;
  });
  set(rule, options.weight_decay, "--weight-decay", [](auto& r) { return &r.weight_decay; });
  validate(rule);
  return rule;
}

std::string_view name_of(const Rule& rule) {
  return std::visit([](const auto& r) { return name(r); }, rule);
}

Rule parse_rule(std::string_view text) {
  std::string names;
  for (const Rule& rule :
       {Rule(AdamW{}), Rule(Adam{}), Rule(Lion{}), Rule(Sgd{}), Rule(Adagrad{})}) {
    if (text == name_of(rule)) return rule;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(rule));
  }
  throw ConfigError(fmt::format("--optimizer '{}': expected one of {}", text, names));
}

StateFormat parse_state_format(std::string_view text) {
  std::string names;
  for (const StateFormat format : kFormats) {
    if (text == kernels::name_of(format)) return format;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kernels::name_of(format));
  }
  throw ConfigError(fmt::format("--state-format '{}': expected one of {}", text, names));
}

int moments_of(const Rule& rule) {
  return std::holds_alternative<AdamW>(rule) || std::holds_alternative<Adam>(rule) ? 2 : 1;
}

void validate(const Rule& rule) {
  std::visit(
      [](const auto& r) {
        check(r);
        require(r.weight_decay >= 0 && r.weight_decay <= 1000, "--weight-decay", r.weight_decay,
                "0 to 1000");
      },
      rule);
}

bool has_format(const Rule& rule, StateFormat format) {
  return format == StateFormat::exact || std::holds_alternative<AdamW>(rule);
}

void validate(const Rule& rule, StateFormat format) {
  if (has_format(rule, format)) return;
  throw ConfigError(fmt::format("--state-format {} is for --optimizer adamw; {} has exact alone",
                                kernels::name_of(format), name_of(rule)));
}

kernels::Step step_numbers(const Rule& rule, double learning_rate, std::int64_t step, bool decays,
                           std::uint64_t seed) {
  return std::visit(
      [&](const auto& r) {
        const Now now{.rate = learning_rate,
                      .step = static_cast<double>(step),
                      .decay = decays ? r.weight_decay : 0.0,
                      .rounding_key = mix_bits(seed ^ mix_bits(static_cast<std::uint64_t>(step)))};
        kernels::Step result = numbers(r, now);
        std::visit([&](auto& made) { made.drops_denormals = step % kDenormalsEvery == 0; }, result);
        return result;
      },
      rule);
}

}  // namespace ebb::states
