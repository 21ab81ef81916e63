#include "states/clip.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/to_size.h"

namespace ebb::states {

GradientNorm global_norm(std::span<const std::span<const double>> partials, double clip,
                         double divisor) {
  GradientNorm norm;
  double total = 0;
  std::int64_t tensor = 0;
  for (const std::span<const double> blocks : partials) {
    double sum = 0;
    for (const double partial : blocks) sum += partial;
    total += sum;
    // Once the total is not finite it stays so: the first to spoil it is the one to name.
    if (norm.first_bad_tensor < 0 && !std::isfinite(total)) norm.first_bad_tensor = tensor;
    ++tensor;
  }
  norm.value = std::sqrt(total) / divisor;
  if (norm.first_bad_tensor >= 0) {
    norm.scale.apply = 0;
  } else {
    const double factor = clip > 0 ? std::min(1.0, clip / (norm.value + 1e-6)) : 1.0;
    norm.scale.gradient_scale = static_cast<float>(factor / divisor);
  }
  return norm;
}

GradientNorm global_norm(const ChunkMap& map, const double* squares, double clip, double divisor) {
  std::vector<std::span<const double>> tensors;
  tensors.reserve(map.tensors.size());
  for (const Tensor& tensor : map.tensors) {
    tensors.emplace_back(squares + tensor.first_square,
                         to_size(kernels::norm_blocks(tensor.count)));
  }
  return global_norm(tensors, clip, divisor);
}

}  // namespace ebb::states
