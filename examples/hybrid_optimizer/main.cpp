// A network of two layers, written by hand, that learns which of two spirals a point is on. Its
// weights are bf16 and the program's own; ebb::HybridOptimizer keeps the rest of the fp32 masters
// and the moments. It trains with all of that on the device, then with half of it streamed through
// a small window, then with half of it updated by the CPU, and shows that the results have the same
// bits.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include <ebb/error.h>
#include <ebb/hybrid_optimizer.h>

namespace {

constexpr int kInputs = 2;
constexpr int kHidden = 4096;
constexpr int kPoints = 64;
constexpr int kSteps = 120;
constexpr double kClip = 1.0;

float widen(std::uint16_t bf16) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bf16) << 16);
}

// A parameter of the model: a bf16 weight, which the optimizer updates, and an fp32 gradient.
struct Tensor {
  std::string name;
  std::vector<std::uint16_t> weight;
  std::vector<float> gradient;
  bool decays;

  Tensor(std::string name, std::size_t count, bool decays)
      : name(std::move(name)), weight(count), gradient(count), decays(decays) {}

  void fill_at_random(std::mt19937& random, float deviation) {
    std::normal_distribution<float> normal(0.0f, deviation);
    for (std::uint16_t& w : weight) {
      w = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(normal(random)) >> 16);
    }
  }
};

struct Point {
  std::array<float, kInputs> at;
  float label;  // 0 or 1
};

std::vector<Point> spirals() {
  std::vector<Point> points;
  for (int i = 0; i < kPoints; ++i) {
    const float label = static_cast<float>(i % 2);
    const float turn = 3.0f * static_cast<float>(i / 2) / (kPoints / 2);
    const float angle = (turn + label) * std::numbers::pi_v<float>;
    const float radius = 0.2f + turn / 3.0f;
    points.push_back({{radius * std::cos(angle), radius * std::sin(angle)}, label});
  }
  return points;
}

class Model {
 public:
  Model() {
    std::mt19937 random(1);
    tensors_[kIn].fill_at_random(random, 2.0f);
    tensors_[kInBias].fill_at_random(random, 1.0f);
    tensors_[kOut].fill_at_random(random, 0.01f);
  }

  std::vector<ebb::HybridOptimizer::Parameter> parameters() {
    std::vector<ebb::HybridOptimizer::Parameter> all;
    for (Tensor& t : tensors_) {
      all.push_back({.name = t.name,
                     .weight = t.weight.data(),
                     .weight_type = ebb::HybridOptimizer::Type::bf16,
                     .gradient = t.gradient.data(),
                     .gradient_type = ebb::HybridOptimizer::Type::fp32,
                     .count = static_cast<std::int64_t>(t.weight.size()),
                     .decays = t.decays});
    }
    return all;
  }

  // The mean loss over the points; activations stay for backward(). Every weight is waited for
  // right before the layer that reads it, so the update of the layers behind it can go on.
  double forward(const std::vector<Point>& points, ebb::HybridOptimizer& optimizer) {
    optimizer.wait_for_weight(kIn);
    optimizer.wait_for_weight(kInBias);
    hidden_.assign(points.size() * kHidden, 0.0f);
    for (std::size_t p = 0; p < points.size(); ++p) {
      for (std::size_t h = 0; h < kHidden; ++h) {
        float sum = widen(tensors_[kInBias].weight[h]);
        for (std::size_t i = 0; i < kInputs; ++i) {
          sum += widen(tensors_[kIn].weight[h * kInputs + i]) * points[p].at[i];
        }
        hidden_[p * kHidden + h] = std::max(sum, 0.0f);
      }
    }
    optimizer.wait_for_weight(kOut);
    optimizer.wait_for_weight(kOutBias);
    probability_.assign(points.size(), 0.0f);
    double loss = 0;
    for (std::size_t p = 0; p < points.size(); ++p) {
      float logit = widen(tensors_[kOutBias].weight[0]);
      for (std::size_t h = 0; h < kHidden; ++h) {
        logit += widen(tensors_[kOut].weight[h]) * hidden_[p * kHidden + h];
      }
      probability_[p] = 1.0f / (1.0f + std::exp(-logit));
      loss += std::log1p(std::exp(points[p].label > 0.5f ? -logit : logit));
    }
    return loss / static_cast<double>(points.size());
  }

  // Tells the optimizer of every gradient as soon as it is there.
  void backward(const std::vector<Point>& points, ebb::HybridOptimizer& optimizer) {
    for (Tensor& t : tensors_) std::fill(t.gradient.begin(), t.gradient.end(), 0.0f);
    const float share = 1.0f / static_cast<float>(points.size());
    for (std::size_t p = 0; p < points.size(); ++p) {
      const float error = (probability_[p] - points[p].label) * share;
      tensors_[kOutBias].gradient[0] += error;
      for (std::size_t h = 0; h < kHidden; ++h) {
        tensors_[kOut].gradient[h] += error * hidden_[p * kHidden + h];
      }
    }
    optimizer.gradient_ready(kOutBias);
    optimizer.gradient_ready(kOut);
    for (std::size_t p = 0; p < points.size(); ++p) {
      const float error = (probability_[p] - points[p].label) * share;
      for (std::size_t h = 0; h < kHidden; ++h) {
        if (hidden_[p * kHidden + h] == 0.0f) continue;
        const float to_hidden = error * widen(tensors_[kOut].weight[h]);
        tensors_[kInBias].gradient[h] += to_hidden;
        for (std::size_t i = 0; i < kInputs; ++i) {
          tensors_[kIn].gradient[h * kInputs + i] += to_hidden * points[p].at[i];
        }
      }
    }
    optimizer.gradient_ready(kInBias);
    optimizer.gradient_ready(kIn);
  }

 private:
  enum : std::int64_t { kIn, kInBias, kOut, kOutBias };

  std::vector<Tensor> tensors_ = {
      Tensor("in.weight", kHidden* kInputs, true), Tensor("in.bias", kHidden, false),
      Tensor("out.weight", kHidden, true), Tensor("out.bias", 1, false)};
  std::vector<float> hidden_;
  std::vector<float> probability_;
};

struct Result {
  double first_loss = 0;
  double last_loss = 0;
  std::string digest;
};

Result train(const ebb::HybridOptimizer::Settings& settings) {
  const std::vector<Point> points = spirals();
  Model model;
  ebb::HybridOptimizer optimizer(settings, model.parameters());
  Result result;
  for (int step = 1; step <= kSteps; ++step) {
    const double loss = model.forward(points, optimizer);
    if (step == 1) result.first_loss = loss;
    result.last_loss = loss;
    model.backward(points, optimizer);
    const auto report = optimizer.step(1e-2, kClip);
    if (!report.applied) throw ebb::NumericsError("the gradients are not finite");
  }
  result.digest = optimizer.weights_digest() + " " + optimizer.moments_digest();
  const auto placement = optimizer.placement();
  const auto traffic = optimizer.traffic();
  std::printf("%-9s offloaded %5.1f%%   loss %.4f to %.4f   moved a step: %s up, %s down\n",
              settings.states.c_str(),
              100.0 *
                  static_cast<double>(placement.streamed_parameters + placement.host_parameters) /
                  static_cast<double>(placement.resident_parameters +
                                      placement.streamed_parameters + placement.host_parameters),
              result.first_loss, result.last_loss, ebb::format_bytes(traffic.up / kSteps).c_str(),
              ebb::format_bytes(traffic.down / kSteps).c_str());
  std::printf("          masters and moments %s\n", result.digest.c_str());
  return result;
}

}  // namespace

int main() {
  try {
    ebb::HybridOptimizer::Settings settings;
    settings.rule.weight_decay = 0.01;
    settings.chunk_parameters = 4096;
    settings.states = "resident";
    const Result resident = train(settings);
    settings.offload_fraction = 0.5;
    for (const char* states : {"stream", "host"}) {
      settings.states = states;
      if (train(settings).digest != resident.digest) {
        std::fprintf(stderr, "train_by_hand: %s gave other bits than resident\n", states);
        return 1;
      }
    }
    if (resident.last_loss > resident.first_loss / 4) {
      std::fprintf(stderr, "train_by_hand: the loss did not fall to a quarter\n");
      return 1;
    }
    std::printf("the same bits in every placement\n");
  } catch (const ebb::Error& error) {
    std::fprintf(stderr, "train_by_hand: %s\n", error.what());
    return 1;
  }
}
