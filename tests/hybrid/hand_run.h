// Tensors with gradients for every step, and what the specification makes of them: plain planes, a
// tensor each, updated by the reference kernels in the obvious order.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "ebb/hybrid_optimizer.h"
#include "hybrid/optimizer.h"
#include "kernels/reference/optimizer_ops.h"
#include "kernels/split_master.h"
#include "states/clip.h"
#include "states/format.h"
#include "states/rules.h"

namespace ebb::hybrid {

using Type = HybridOptimizer::Type;

struct TensorShape {
  std::string name;
  std::int64_t count = 0;
  Type weight_type = Type::bf16;
  Type gradient_type = Type::bf16;
  bool decays = true;
};

// Sizes around the blocks of the norm (4096) and of int8 (128), small ones and one of many chunks.
inline std::vector<TensorShape> small_shapes(Type weight = Type::bf16, Type gradient = Type::bf16) {
  return {{"embedding", 3 * 4096 + 17, weight, gradient, true},
          {"norm", 33, weight, gradient, false},
          {"matrix", 9 * 4096, weight, gradient, true},
          {"bias", 1, weight, gradient, false},
          {"wide", 4095, weight, gradient, true},
          {"head", 2 * 4096 + 129, weight, gradient, true}};
}

inline DType dtype_of(Type type) { return type == Type::bf16 ? DType::bf16 : DType::f32; }

// One tensor of the caller's, in memory of its own.
struct Tensor {
  TensorShape shape;
  std::vector<std::byte> weight;
  std::vector<std::byte> gradient;

  Tensor(const TensorShape& s, std::uint64_t seed)
      : shape(s),
        weight(static_cast<std::size_t>(s.count * size_of(dtype_of(s.weight_type)))),
        gradient(static_cast<std::size_t>(s.count * size_of(dtype_of(s.gradient_type)))) {
    fill(weight, dtype_of(s.weight_type), seed, 0.1);
  }

  static void fill(std::vector<std::byte>& to, DType type, std::uint64_t seed, double deviation) {
    const CounterRng rng(seed, 0);
    const std::size_t count = to.size() / static_cast<std::size_t>(size_of(type));
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(deviation * rng.normal(i));
      if (type == DType::bf16) {
        const bf16 rounded = to_bf16(value);
        std::memcpy(to.data() + 2 * i, &rounded, 2);
      } else {
        std::memcpy(to.data() + 4 * i, &value, 4);
      }
    }
  }
};

// What a training loop has. Gradients depend on the step and the tensor alone.
struct Loop {
  std::vector<Tensor> tensors;
  std::uint64_t seed;

  explicit Loop(const std::vector<TensorShape>& shapes, std::uint64_t seed = 7) : seed(seed) {
    for (std::size_t t = 0; t < shapes.size(); ++t) tensors.emplace_back(shapes[t], seed + t);
  }

  std::vector<HybridOptimizer::Parameter> parameters() {
    std::vector<HybridOptimizer::Parameter> all;
    for (Tensor& t : tensors) {
      all.push_back({.name = t.shape.name,
                     .weight = t.weight.data(),
                     .weight_type = t.shape.weight_type,
                     .gradient = t.gradient.data(),
                     .gradient_type = t.shape.gradient_type,
                     .count = t.shape.count,
                     .decays = t.shape.decays});
    }
    return all;
  }

  void make_gradient(std::size_t t, std::int64_t step) {
    Tensor& tensor = tensors[t];
    Tensor::fill(tensor.gradient, dtype_of(tensor.shape.gradient_type),
                 1000 * static_cast<std::uint64_t>(step) + t + seed, 0.02);
  }
};

// As a schedule would.
inline double rate_of(std::int64_t step) { return 1e-2 / static_cast<double>(step); }
constexpr double kClip = 1.0;

// The specification.
class HandRun {
 public:
  // What a tensor takes of a step.
  struct TensorStep {
    bool left_out = false;
    states::Rule rule;
    double rate = 0;
    std::int64_t step = 0;  // counted from 1
  };

  HandRun(Loop& loop, const states::Rule& rule, kernels::StateFormat format, std::uint64_t seed)
      : loop_(loop), rule_(rule), format_(format), seed_(seed) {
    for (const Tensor& t : loop.tensors) {
      kinds_.push_back({format, dtype_of(t.shape.weight_type), states::moments_of(rule)});
      states_.emplace_back(
          static_cast<std::size_t>(states::state_bytes(kinds_.back(), t.shape.count)));
    }
  }

  states::GradientNorm step(std::int64_t step) {
    return this->step(
        step, std::vector<TensorStep>(loop_.tensors.size(), {false, rule_, rate_of(step), step}));
  }

  // Makes the gradients of `step`; what each tensor takes may be of others.
  states::GradientNorm step(std::int64_t step, const std::vector<TensorStep>& each,
                            double gradient_scale = 1) {
    kernels::ReferenceOptimizerOps ops;
    std::vector<std::vector<double>> squares(loop_.tensors.size());
    std::vector<std::span<const double>> spans;
    for (std::size_t t = 0; t < loop_.tensors.size(); ++t) {
      loop_.make_gradient(t, step);
      const Tensor& tensor = loop_.tensors[t];
      squares[t].resize(static_cast<std::size_t>(kernels::norm_blocks(tensor.shape.count)));
      if (!each[t].left_out) {
        ops.square_sums(squares[t].data(), tensor.gradient.data(),
                        dtype_of(tensor.shape.gradient_type), tensor.shape.count);
      }
      spans.emplace_back(squares[t]);
    }
    const states::GradientNorm norm = states::global_norm(spans, kClip, gradient_scale);
    for (std::size_t t = 0; t < loop_.tensors.size(); ++t) {
      Tensor& tensor = loop_.tensors[t];
      const std::int64_t count = tensor.shape.count;
      kernels::StateSpan span = states::state_span(
          states::planes(states_[t].data(), kinds_[t], count), kinds_[t], 0, count);
      span.weight = tensor.weight.data();
      span.gradient = tensor.gradient.data();
      span.gradient_type = dtype_of(tensor.shape.gradient_type);
      span.tensor_key = key_of(tensor.shape.name);
      const TensorStep& of = each[t];
      if (of.left_out) continue;
      ops.update(span, states::step_numbers(of.rule, of.rate, of.step, tensor.shape.decays, seed_),
                 &norm.scale);
    }
    return norm;
  }

  const std::byte* plane(Plane plane, std::size_t t) const {
    const Tensor& tensor = loop_.tensors[t];
    if (plane == Plane::weight) return tensor.weight.data();
    return states_[t].data() + states::offset_of(plane, kinds_[t], tensor.shape.count);
  }
  const states::StateKind& kind(std::size_t t) const { return kinds_[t]; }

 private:
  // Written down once more, so that a change of the keys shows: they are in saved states.
  static std::uint64_t key_of(const std::string& name) {
    std::uint64_t key = name.size();
    for (const char c : name) key = mix_bits(key ^ static_cast<unsigned char>(c));
    return key;
  }

  Loop& loop_;
  states::Rule rule_;
  kernels::StateFormat format_;
  std::uint64_t seed_;
  std::vector<states::StateKind> kinds_;
  std::vector<std::vector<std::byte>> states_;  // aligned enough for the reference
};

// One step as a caller makes it: backwards through the tensors, then the step.
inline HybridOptimizer::StepReport step_once(Optimizer& optimizer, Loop& loop, std::int64_t step) {
  for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
    optimizer.wait_for_weight(static_cast<std::int64_t>(t), nullptr);
  }
  for (std::size_t t = loop.tensors.size(); t-- > 0;) {
    loop.make_gradient(t, step);
    optimizer.gradient_ready(static_cast<std::int64_t>(t), nullptr);
  }
  return optimizer.step(rate_of(step), kClip, nullptr);
}

// A step that is not made: its gradients are NaN. Everything was waited for before.
inline void fail_once(Optimizer& optimizer, Loop& loop) {
  for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
    std::vector<std::byte>& gradient = loop.tensors[t].gradient;
    std::fill(gradient.begin(), gradient.end(), std::byte{0xff});
    optimizer.gradient_ready(static_cast<std::int64_t>(t), nullptr);
  }
  EXPECT_FALSE(optimizer.step(1e-3, kClip, nullptr).applied);
}

// Every plane of every tensor, bit by bit.
inline void expect_equal(Optimizer& optimizer, const HandRun& expected, const Loop& loop,
                         const std::string& what) {
  StateStore& store = optimizer.store();
  for (std::size_t t = 0; t < loop.tensors.size(); ++t) {
    const std::int64_t count = loop.tensors[t].shape.count;
    const states::StateKind kind = expected.kind(t);
    for (const Plane plane : all_planes(kind)) {
      std::vector<std::byte> found(static_cast<std::size_t>(plane_bytes(plane, kind, count)));
      store.read(plane, static_cast<int>(t), 0, count, found.data());
      const std::byte* wanted = expected.plane(plane, t);
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i], wanted[i]) << what << ": byte " << i << " of the plane "
                                       << name_of(plane) << " of " << loop.tensors[t].shape.name;
      }
    }
  }
}

}  // namespace ebb::hybrid
