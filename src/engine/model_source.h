// Where a model comes from: a preset, a folder with config.json and model.safetensors, or a run's
// folder, which stands for its last checkpoint.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "io/file_system.h"
#include "model/config.h"
#include "model/parameters.h"

namespace ebb::engine {

struct ModelSource {
  std::string name;  // as the user gave it
  model::Config config;
  std::filesystem::path folder;  // empty for a preset
  std::filesystem::path weights() const { return folder / "model.safetensors"; }
};

// Throws ConfigError, IoError or FormatError that says what is wrong with `model`.
ModelSource find_model(io::FileSystem& files, const std::string& model);

// The type most of the weights are stored in: fp32 or bf16. bf16 for a preset.
DType stored_dtype(io::FileSystem& files, const ModelSource& source);

// Values of a parameter from element `first` on.
using WeightSink =
    std::function<void(int parameter, std::int64_t first, std::span<const float> values)>;

// Reads the weights tensor by tensor, in pieces of bounded size, as fp32. Missing, misshapen,
// surplus and not finite ones are FormatErrors that name the tensor.
void load_weights(io::FileSystem& files, const ModelSource& source,
                  const model::Parameters& parameters, const WeightSink& sink);

// Random ones for a preset, made by the pool: a value depends on its parameter's name and index
// alone.
void initialize_weights(ThreadPool& pool, const model::Config& config,
                        const model::Parameters& parameters, std::uint64_t seed,
                        const WeightSink& sink);

}  // namespace ebb::engine
