// The update rules as their users set them, and the numbers of one step of each. The states room
// decides what the optimizer computes (rules, schedules, clipping) and how states are laid out, cut
// into chunks, read and written; it does not compute on arrays (kernels does), and does not know
// where they are or when they move (engine and hybrid do).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "kernels/update.h"

namespace ebb::states {

// Decay that is no part of the gradient.
struct AdamW {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

// Adam with L2: the decay is added to the gradient.
struct Adam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
};

struct Lion {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0.1;
};

struct Sgd {
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0;  // in the gradient
};

struct Adagrad {
  double epsilon = 1e-10;
  double weight_decay = 0;  // in the gradient
};

using Rule = std::variant<AdamW, Adam, Lion, Sgd, Adagrad>;

// What a user said of a rule; what is not said is as the rule comes.
struct RuleOptions {
  std::string name = "adamw";
  std::optional<double> beta1{};
  std::optional<double> beta2{};
  std::optional<double> epsilon{};
  std::optional<double> momentum{};
  std::optional<bool> nesterov{};
  std::optional<double> weight_decay{};
};

// The rule as wished, valid. Throws ConfigError also for what the rule does not have.
Rule make_rule(const RuleOptions& options);
// The same rule with what the options say besides its name.
Rule with_options(Rule rule, const RuleOptions& options);

std::string_view name_of(const Rule& rule);
// The rule of that name as it comes, to be changed and validated. Throws ConfigError that lists the
// names.
Rule parse_rule(std::string_view name);
kernels::StateFormat parse_state_format(std::string_view name);

// How many moments it keeps: 1 or 2.
int moments_of(const Rule& rule);

// Throws ConfigError that names the flag, the value and the range.
void validate(const Rule& rule);
bool has_format(const Rule& rule, kernels::StateFormat format);
// Throws ConfigError where the rule has no such format.
void validate(const Rule& rule, kernels::StateFormat format);

// The numbers of step `step`, counted from 1, made in double and rounded once to float. Parameters
// that do not decay (biases, norms) get a decay of exactly nothing. `seed` is the run's; compact
// formats round with it.
kernels::Step step_numbers(const Rule& rule, double learning_rate, std::int64_t step, bool decays,
                           std::uint64_t seed);

}  // namespace ebb::states
