#include "optim/adamw.h"

#include <cmath>
#include <limits>

#include "optim/require.h"

namespace ebb::optim {

void validate(const AdamW& adamw) {
  // All of these are false for NaN.
  require(adamw.beta1 >= 0 && adamw.beta1 < 1, "--beta1", adamw.beta1, "0 or more, below 1");
  require(adamw.beta2 >= 0 && adamw.beta2 < 1, "--beta2", adamw.beta2, "0 or more, below 1");
  // A parameter whose gradients were all zero divides 0 by epsilon, so it must not vanish in fp32.
  require(adamw.epsilon >= std::numeric_limits<float>::min() && adamw.epsilon <= 1, "--epsilon",
          adamw.epsilon, "1.2e-38 to 1");
  require(adamw.weight_decay >= 0 && std::isfinite(adamw.weight_decay), "--weight-decay",
          adamw.weight_decay, "a finite number, 0 or more");
}

kernels::AdamWStep adamw_step(const AdamW& adamw, double learning_rate, std::int64_t step,
                              bool decays) {
  const auto t = static_cast<double>(step);
  const double correction1 = 1.0 - std::pow(adamw.beta1, t);
  const double correction2 = 1.0 - std::pow(adamw.beta2, t);
  kernels::AdamWStep result;
  result.beta1 = static_cast<float>(adamw.beta1);
  result.one_minus_beta1 = static_cast<float>(1.0 - adamw.beta1);
  result.beta2 = static_cast<float>(adamw.beta2);
  result.one_minus_beta2 = static_cast<float>(1.0 - adamw.beta2);
  result.inverse_root_correction2 = static_cast<float>(1.0 / std::sqrt(correction2));
  result.epsilon = static_cast<float>(adamw.epsilon);
  result.step_size = static_cast<float>(learning_rate / correction1);
  result.decay_factor =
      decays ? static_cast<float>(1.0 - learning_rate * adamw.weight_decay) : 1.0f;
  return result;
}

}  // namespace ebb::optim
