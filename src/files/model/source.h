// Where a model comes from: a preset, a folder with config.json and safetensors files, a run's
// folder, which stands for its last checkpoint, or a GGUF file.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "io/file_system.h"
#include "kernels/weight_type.h"
#include "model/config.h"
#include "model/parameters.h"
#include "states/format.h"

namespace ebb::files {

inline constexpr std::string_view kConfigName = "config.json";

struct ModelSource {
  std::string name;  // as the user gave it
  model::Config config;
  std::filesystem::path folder;  // empty for a preset and for a GGUF file
  // All of config.json, or what it would be for a GGUF file; null for a preset.
  Json stored_config;
  std::filesystem::path file = {};  // GGUF, of several parts the first; else empty
  // For people, where config.json says what does not hold; else empty.
  std::string head_note = {};
  std::string dropout_note = {};

  // A preset's are random.
  bool has_weights() const { return !folder.empty() || !file.empty(); }
};

// The folder with config.json that `model` stands for. Throws ConfigError that says what to give.
std::filesystem::path find_model_folder(io::FileSystem& files, const std::string& model);

// Throws ConfigError, IoError or FormatError that says what is wrong with `model`. Where
// config.json ties the head to the embedding but the files hold another one, the model is untied,
// in stored_config too, as transformers (5) has it.
ModelSource find_model(io::FileSystem& files, const std::string& model);

// Where the folder is a checkpoint: compares all files but the training state with the manifest's
// checksums. Throws FormatError that names the file.
void verify_model(io::FileSystem& files, const ModelSource& source);

// The type to compute in when nobody says: fp32 where most of the weights are stored so, else bf16,
// which is also a preset's.
DType stored_dtype(io::FileSystem& files, const ModelSource& source);

// Elements of a parameter that are on their way from or to a file at once, at most.
inline constexpr std::int64_t kWeightPiece = states::kPiece;

// Values of a parameter from element `first` on.
using WeightSink =
    std::function<void(int parameter, std::int64_t first, std::span<const float> values)>;

// Reads the weights tensor by tensor, in pieces of bounded size, as fp32: besides the pieces no
// weight is in memory. Missing, misshapen, surplus and not finite ones are FormatErrors that name
// the file and the tensor.
void load_weights(io::FileSystem& files, const ModelSource& source,
                  const model::Parameters& parameters, const WeightSink& sink);

// Matrices in blocks, by the names of their parameters: those that products can take as they are.
// Empty for all but GGUF files.
using StoredTypes = std::map<std::string, kernels::WeightType, std::less<>>;
StoredTypes matrices_in_blocks(io::FileSystem& files, const ModelSource& source);

// Bytes of a matrix as it is stored, from byte `first` on: whole rows.
using StoredSink =
    std::function<void(int parameter, Bytes first, std::span<const std::byte> bytes)>;

// The same, but what `kept` names goes to `stored` as it is in the file.
void load_weights(io::FileSystem& files, const ModelSource& source,
                  const model::Parameters& parameters, const WeightSink& sink,
                  const StoredTypes& kept, const StoredSink& stored);

// Throws what load_weights would, as far as the headers alone say it.
void check_weights(io::FileSystem& files, const ModelSource& source);

// Random ones for a preset, made by the pool: a value depends on its parameter's name and index
// alone. The sink is called by one thread at a time, in order, perhaps not the caller's; it must
// not use the pool.
void initialize_weights(ThreadPool& pool, const model::Config& config,
                        const model::Parameters& parameters, std::uint64_t seed,
                        const WeightSink& sink);

}  // namespace ebb::files
