#include "engine/model_source.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/dtype.h"
#include "base/json.h"
#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"
#include "ebb/error.h"
#include "engine/parameter_store.h"
#include "io/text_file.h"

namespace ebb::engine {
namespace {

constexpr std::string_view kPreset = "preset:";

Json read_json(io::FileSystem& files, const std::filesystem::path& path) {
  return parse_json(io::read_text(files, path, 16 * kMiB), path.string());
}

const checkpoint::StoredTensor& find_tensor(const checkpoint::SafetensorsReader& reader,
                                            const model::Parameter& parameter) {
  const checkpoint::StoredTensor* tensor = reader.find(parameter.name);
  if (tensor == nullptr) {
    throw FormatError(fmt::format("{}: tensor {} is missing; is config.json of another model?",
                                  reader.path().string(), parameter.name));
  }
  const std::vector<std::int64_t> shape =
      parameter.matrix ? std::vector{parameter.rows, parameter.cols} : std::vector{parameter.rows};
  if (tensor->shape != shape) {
    throw FormatError(
        fmt::format("{}: tensor {} has shape [{}], but config.json makes it [{}]; the weights are "
                    "another model's",
                    reader.path().string(), parameter.name, fmt::join(tensor->shape, ", "),
                    fmt::join(shape, ", ")));
  }
  if (tensor->type != checkpoint::StoredType::f32 && tensor->type != checkpoint::StoredType::bf16) {
    throw FormatError(fmt::format("{}: tensor {} is stored as {}; Ebb reads F32 and BF16",
                                  reader.path().string(), parameter.name, name_of(tensor->type)));
  }
  return *tensor;
}

void refuse_surplus(const checkpoint::SafetensorsReader& reader,
                    const model::Parameters& parameters, const model::Config& config) {
  std::set<std::string_view> known;
  for (const model::Parameter& parameter : parameters.all) known.insert(parameter.name);
  // Some files hold a tied head a second time.
  if (config.tied) known.insert("lm_head.weight");
  for (const checkpoint::StoredTensor& tensor : reader.tensors()) {
    if (!known.contains(tensor.name)) {
      throw FormatError(
          fmt::format("{}: tensor {} does not belong to a {} model with this config.json",
                      reader.path().string(), tensor.name, config.family));
    }
  }
}

}  // namespace

ModelSource find_model(io::FileSystem& files, const std::string& model) {
  if (model.starts_with(kPreset)) {
    return {.name = model, .config = model::preset(model.substr(kPreset.size())), .folder = {}};
  }
  if (!files.is_directory(model)) {
    throw ConfigError(
        fmt::format("--model {}: no such folder. Give a folder with config.json and "
                    "model.safetensors, the folder "
                    "of a run, or a preset such as preset:small.",
                    model));
  }
  std::filesystem::path folder = model;
  if (!files.exists(folder / "config.json")) {
    const auto latest = checkpoint::latest_checkpoint(files, folder);
    if (!latest) {
      throw ConfigError(fmt::format(
          "--model {}: there is neither a config.json nor a checkpoint in this folder. Give a "
          "model's folder, or the folder of a run that has saved.",
          model));
    }
    folder = *latest;
  }
  const std::filesystem::path config = folder / "config.json";
  return {.name = model,
          .config = model::parse_config(read_json(files, config), config.string()),
          .folder = folder};
}

DType stored_dtype(io::FileSystem& files, const ModelSource& source) {
  if (source.folder.empty()) return DType::bf16;
  const checkpoint::SafetensorsReader reader(files, source.weights());
  Bytes wide = 0;
  Bytes all = 0;
  for (const checkpoint::StoredTensor& tensor : reader.tensors()) {
    all += tensor.bytes;
    if (tensor.type == checkpoint::StoredType::f32) wide += tensor.bytes;
  }
  return 2 * wide > all ? DType::f32 : DType::bf16;
}

void load_weights(io::FileSystem& files, const ModelSource& source,
                  const model::Parameters& parameters, const WeightSink& sink) {
  const checkpoint::SafetensorsReader reader(files, source.weights());
  refuse_surplus(reader, parameters, source.config);
  std::vector<float> values;
  std::vector<bf16> halves;
  for (int p = 0; p < static_cast<int>(parameters.all.size()); ++p) {
    const model::Parameter& parameter = parameters.all[static_cast<std::size_t>(p)];
    const checkpoint::StoredTensor& tensor = find_tensor(reader, parameter);
    const Bytes element = size_of(tensor.type);
    for (std::int64_t first = 0; first < parameter.count(); first += ParameterStore::kPiece) {
      const auto n =
          static_cast<std::size_t>(std::min(ParameterStore::kPiece, parameter.count() - first));
      values.resize(n);
      if (tensor.type == checkpoint::StoredType::f32) {
        reader.read(tensor, first * element, std::as_writable_bytes(std::span(values)));
      } else {
        halves.resize(n);
        reader.read(tensor, first * element, std::as_writable_bytes(std::span(halves)));
        std::transform(halves.begin(), halves.end(), values.begin(),
                       [](bf16 half) { return to_float(half); });
      }
      const auto bad = std::find_if_not(values.begin(), values.end(),
                                        [](float value) { return std::isfinite(value); });
      if (bad != values.end()) {
        throw FormatError(fmt::format(
            "{}: tensor {} has the value {} at element {}; weights must be finite",
            reader.path().string(), parameter.name, *bad, first + (bad - values.begin())));
      }
      sink(p, first, values);
    }
  }
}

void initialize_weights(ThreadPool& pool, const model::Config& config,
                        const model::Parameters& parameters, std::uint64_t seed,
                        const WeightSink& sink) {
  constexpr std::int64_t grain = 2048;
  const model::Initializer initializer(config, seed);
  std::vector<float> values;
  for (int p = 0; p < static_cast<int>(parameters.all.size()); ++p) {
    const model::Parameter& parameter = parameters.all[static_cast<std::size_t>(p)];
    for (std::int64_t first = 0; first < parameter.count(); first += ParameterStore::kPiece) {
      const std::int64_t n = std::min(ParameterStore::kPiece, parameter.count() - first);
      values.resize(static_cast<std::size_t>(n));
      pool.parallel_for((n + grain - 1) / grain, [&](std::int64_t job, int) {
        const std::int64_t from = job * grain;
        initializer.fill(parameter, first + from, std::min(grain, n - from), values.data() + from);
      });
      sink(p, first, values);
    }
  }
}

}  // namespace ebb::engine
