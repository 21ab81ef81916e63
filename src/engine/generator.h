// A model ready to generate: weights and key-value cache on the device, one sequence.
#pragma once

#include <cstdint>
#include <span>

#include "engine/model_source.h"
#include "engine/runtime.h"
#include "exec/executor.h"
#include "memory/arena.h"
#include "model/decoder.h"
#include "plan/generation_program.h"
#include "plan/layout.h"
#include "plan/planner.h"

namespace ebb::engine {

class Generator {
 public:
  // Plans (or throws OutOfBudget with what is missing), takes the memory and loads the weights. The
  // sequence can grow to `positions` tokens. `held` is what the caller holds of the host's limit.
  Generator(Runtime& runtime, io::FileSystem& files, const ModelSource& source, DType dtype,
            std::int64_t positions, const plan::Limits& limits, Bytes held = 0);

  // Takes the sequence further by these tokens and returns the logits of what comes next; valid
  // until the next call.
  std::span<const float> advance(std::span<const std::int32_t> tokens);

  std::int64_t length() const { return length_; }
  std::int64_t positions() const { return positions_; }
  Bytes measured_peak() const {
    return device_arena_.high_water() + runtime_.device_model().library_bytes();
  }

  // Tokens that go through the model at once when a prompt is read.
  static constexpr std::int64_t kPromptSlice = 64;

 private:
  void load(io::FileSystem& files, const ModelSource& source);
  void run_task(exec::TaskRun& run);

  Runtime& runtime_;
  DType dtype_;
  std::int64_t positions_;
  model::Parameters parameters_;
  model::Decoder decoder_;
  plan::GenerationWork work_;
  plan::Program program_;
  plan::Layout layout_;
  memory::Arena device_arena_;
  memory::Arena host_arena_;
  exec::Executor executor_;
  std::int64_t length_ = 0;
  std::int64_t count_ = 0;  // tokens of the call under way
};

}  // namespace ebb::engine
