// A whole model in ordinary memory, computed by the reference ops as a rule: embedding, blocks and
// head.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.h"
#include "kernels/reference/reference_ops.h"
#include "model/decoder.h"

namespace ebb::model {

using Floats = std::vector<float>;

inline std::byte* bytes_of(Floats& values) { return reinterpret_cast<std::byte*>(values.data()); }
inline const std::byte* bytes_of(const Floats& values) {
  return reinterpret_cast<const std::byte*>(values.data());
}

// Memory for whatever a carver is asked for.
class Workspace {
 public:
  explicit Workspace(Bytes bytes = 256 * kKiB) : memory_(static_cast<std::size_t>(bytes)) {}
  Carver carver() { return {memory_.data(), static_cast<Bytes>(memory_.size())}; }
  std::span<const std::byte> used(const Carver& carver) const {
    return {memory_.data(), static_cast<std::size_t>(carver.used())};
  }

 private:
  std::vector<std::byte> memory_;
};

// What blocks save besides what all do.
struct Saves {
  bool mlp = false, cheap_saved = false;
};

class SmallModel {
 public:
  // `other` computes in place of the reference; it outlives this.
  SmallModel(const Config& config, Shape shape, std::uint64_t seed = 3,
             kernels::ModelOps* other = nullptr)
      : ops(other != nullptr ? *other : reference_),
        decoder(config, DType::f32, DType::f32, shape),
        parameters(parameters_of(config)) {
    for (std::size_t b = 0; b < parameters.blocks.size(); ++b) {
      const auto length = static_cast<std::size_t>(parameters.blocks[b].length);
      const CounterRng rng(seed, b);
      Floats values(length);
      for (std::size_t i = 0; i < length; ++i) {
        values[i] = static_cast<float>(0.3 * rng.normal(i));
      }
      weights.push_back(values);
      gradients.emplace_back(length, 0.0f);
    }
    // Norms near one, as they are.
    for (const Parameter& p : parameters.all) {
      if (p.start != Parameter::Start::ones) continue;
      for (std::int64_t i = 0; i < p.count(); ++i) {
        weights[static_cast<std::size_t>(p.block)][static_cast<std::size_t>(p.first + i)] += 1;
      }
    }
    table.resize(static_cast<std::size_t>(decoder.table_bytes(config.max_positions) / 4));
    decoder.fill_table(table.data(), 0, config.max_positions);
    const CounterRng rng(seed, 1000);
    for (std::int64_t i = 0; i < shape.tokens(); ++i) {
      const auto bound = static_cast<std::uint64_t>(config.vocabulary);
      const auto at = static_cast<std::uint64_t>(i);
      ids.push_back(static_cast<std::int32_t>(rng.below(2 * at, bound)));
      targets.push_back(static_cast<std::int32_t>(rng.below(2 * at + 1, bound)));
    }
  }

  std::size_t layers() const { return parameters.blocks.size() - 2; }
  Floats activations() const {
    return Floats(static_cast<std::size_t>(decoder.shape().tokens() * decoder.config().hidden));
  }

  struct Saved {
    Workspace saved, mlp, cheap_saved;
  };

  // Inputs of every block and of the head.
  std::vector<Floats> forward(std::vector<Saved>* saved = nullptr, Saves saves = {}) {
    std::vector<Floats> inputs{activations()};
    decoder.embed(ops, bytes_of(weights[0]), ids, {.start = 0, .length = decoder.shape().sequence},
                  bytes_of(inputs[0]));
    for (std::size_t l = 0; l < layers(); ++l) {
      Floats output = activations();
      Workspace work;
      Saved own;
      Saved& keep = saved != nullptr ? saved->emplace_back() : own;
      Carver saved_memory = keep.saved.carver(), work_memory = work.carver();
      Carver mlp = keep.mlp.carver(), cheap_saved = keep.cheap_saved.carver();
      decoder.forward(ops, static_cast<std::int64_t>(l), decoder.micro_batch(),
                      {.weights = bytes_of(weights[l + 1]),
                       .tables = table.data(),
                       .input = bytes_of(inputs[l]),
                       .output = bytes_of(output),
                       .saved = &saved_memory,
                       .mlp = saves.mlp ? &mlp : nullptr,
                       .cheap_saved = saves.cheap_saved ? &cheap_saved : nullptr},
                      work_memory);
      inputs.push_back(std::move(output));
    }
    return inputs;
  }

  // The loss, summed over tokens; its gradient, times `scale`, goes to `gradients`.
  double step(float scale = 1.0f, Saves saves = {}) {
    std::vector<Saved> saved;
    const std::vector<Floats> inputs = forward(&saved, saves);
    const Config& config = decoder.config();
    Floats residual = activations();
    Floats tied_sum(static_cast<std::size_t>(config.vocabulary * config.hidden));
    double loss = 0;
    Workspace work;
    Carver head_work = work.carver();
    decoder.head(ops,
                 {.weights = bytes_of(weights.back()),
                  .embedding = bytes_of(weights.front()),
                  .gradient = bytes_of(gradients.back()),
                  .tied_sum = bytes_of(tied_sum),
                  .loss = &loss,
                  .scale = scale},
                 bytes_of(inputs.back()), targets, bytes_of(residual), head_work);
    for (std::size_t l = layers(); l-- > 0;) {
      Carver saved_memory = saved[l].saved.carver(), block_work = work.carver();
      Carver mlp = saved[l].mlp.carver(), cheap_saved = saved[l].cheap_saved.carver();
      decoder.backward(ops, static_cast<std::int64_t>(l),
                       {.weights = bytes_of(weights[l + 1]),
                        .tables = table.data(),
                        .input = bytes_of(inputs[l]),
                        .residual = bytes_of(residual),
                        .gradient = bytes_of(gradients[l + 1]),
                        .mlp = saves.mlp ? &mlp : nullptr,
                        .cheap_saved = saves.cheap_saved ? &cheap_saved : nullptr},
                       saved_memory, block_work);
    }
    Carver embed_work = work.carver();
    decoder.embed_backward(ops, ids, bytes_of(residual), bytes_of(tied_sum),
                           bytes_of(gradients.front()), embed_work);
    return loss;
  }

  kernels::ModelOps& ops;
  Decoder decoder;
  Parameters parameters;
  std::vector<Floats> weights, gradients;  // by block
  Floats table;
  std::vector<std::int32_t> ids, targets;

 private:
  kernels::ReferenceOps reference_;
};

}  // namespace ebb::model
