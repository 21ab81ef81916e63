#include "files/model/source.h"
#include "base/list.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/folder.h"
#include "files/json_file.h"
#include "files/run/checkpoint_files.h"
#include "files/weight_files.h"

namespace ebb::files {
namespace {

constexpr std::string_view kPreset = "preset:";

// Where a parameter's values are.
struct Place {
  const SafetensorsReader* file = nullptr;
  const StoredTensor* tensor = nullptr;
};

std::vector<std::int64_t> shape_of(const model::Parameter& parameter) {
  return parameter.matrix ? std::vector{parameter.rows, parameter.cols}
                          : std::vector{parameter.rows};
}

void check_tensor(const Place& place, const model::Parameter& parameter) {
  const StoredTensor& tensor = *place.tensor;
  const std::string where =
      fmt::format("{}: tensor {}", place.file->path().string(), in_quotes(tensor.name));
  if (tensor.shape != shape_of(parameter)) {
    throw FormatError(fmt::format(
        "{} has shape [{}], but config.json makes it [{}]; the weights are another model's: bring "
        "config.json and weights from the same folder",
        where, fmt::join(tensor.shape, ", "), fmt::join(shape_of(parameter), ", ")));
  }
  if (!widens_to_float(tensor.type)) {
    throw FormatError(
        fmt::format("{} is stored as {}; Ebb reads F32, BF16 and F16. Save the model in one of "
                    "them, such as save_pretrained after .to(torch.bfloat16).",
                    where, name_of(tensor.type)));
  }
}

// The place of each parameter, in their order.
std::vector<Place> find_tensors(const WeightFiles& weights, const model::Parameters& parameters,
                                const model::Config& config) {
  std::unordered_map<std::string_view, std::size_t> known;
  for (const model::Parameter& parameter : parameters.all) {
    known.emplace(parameter.name, known.size());
  }
  std::vector<Place> places(parameters.all.size());
  for (const SafetensorsReader& file : weights.files()) {
    for (const StoredTensor& tensor : file.tensors()) {
      const std::string name = model::canonical_name(config, tensor.name);
      if (name.empty()) continue;
      const std::string where =
          fmt::format("{}: tensor {}", file.path().string(), in_quotes(tensor.name));
      const auto found = known.find(name);
      if (found == known.end()) {
        throw FormatError(
            fmt::format("{} does not belong to a {} model with this config.json; bring config.json "
                        "and weights from the same folder",
                        where, config.family));
      }
      Place& place = places[found->second];
      if (place.tensor != nullptr) {
        throw FormatError(
            fmt::format("{} is the parameter {} a second time, after {} in {}; leave "
                        "one of them out",
                        where, name, in_quotes(place.tensor->name), place.file->path().string()));
      }
      place = {&file, &tensor};
      check_tensor(place, parameters.all[found->second]);
    }
  }
  for (std::size_t p = 0; p < places.size(); ++p) {
    if (places[p].tensor != nullptr) continue;
    throw FormatError(
        fmt::format("{}: tensor {} is missing; is config.json of another model? Bring config.json "
                    "and weights from the same folder, with all its files",
                    weights.path().string(), parameters.all[p].name));
  }
  return places;
}

bool equal_values(const Place& a, const Place& b) {
  if (a.tensor->shape != b.tensor->shape) return false;
  if (!widens_to_float(a.tensor->type) || !widens_to_float(b.tensor->type)) return false;
  std::int64_t count = 1;
  for (const std::int64_t size : a.tensor->shape) count *= size;
  std::vector<std::byte> stored;
  std::vector<float> values[2];
  for (std::int64_t first = 0; first < count; first += kWeightPiece) {
    const std::int64_t n = std::min(kWeightPiece, count - first);
    for (const int side : {0, 1}) {
      const Place& place = side == 0 ? a : b;
      const Bytes element = size_of(place.tensor->type);
      stored.resize(to_size(n * element));
      values[side].resize(to_size(n));
      place.file->read(*place.tensor, first * element, stored);
      widen(place.tensor->type, stored, values[side]);
    }
    if (std::memcmp(values[0].data(), values[1].data(), 4 * values[0].size()) != 0) return false;
  }
  return true;
}

// Whether the files of a tied model hold a head that is not its embedding. Weights that are missing
// or damaged hold none: loading them says what is wrong.
bool stores_own_head(io::FileSystem& files, const std::filesystem::path& folder,
                     model::Config config) {
  if (!config.tied) return false;
  config.tied = false;
  const model::Parameters parameters = model::parameters_of(config);
  const auto block = [&](const model::ParameterBlock& block) {
    return parameters.all[block.parameters.front()].name;
  };
  const std::string embedding_name = block(parameters.blocks.front());
  const std::string head_name = block(parameters.blocks.back());
  try {
    const WeightFiles weights(files, folder);
    Place embedding;
    Place head;
    for (const SafetensorsReader& file : weights.files()) {
      for (const StoredTensor& tensor : file.tensors()) {
        const std::string name = model::canonical_name(config, tensor.name);
        if (name == embedding_name) embedding = {&file, &tensor};
        if (name == head_name) head = {&file, &tensor};
      }
    }
    return embedding.tensor != nullptr && head.tensor != nullptr && !equal_values(embedding, head);
  } catch (const Error&) {
    return false;
  }
}

// Ebb computes no dropout; where a configuration asks for some, its user should know.
std::string dropout_note(const ModelSource& source) {
  std::vector<std::string> found;
  for (const char* key :
       {"attention_dropout", "hidden_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    const auto value = source.stored_config.find(key);
    if (value != source.stored_config.end() && value->is_number() && value->get<double>() > 0) {
      found.push_back(fmt::format("{} {}", key, value->dump()));
    }
  }
  if (found.empty()) return {};
  return fmt::format("{} asks for dropout ({}): Ebb trains without", source.name,
                     fmt::join(found, ", "));
}

}  // namespace

std::filesystem::path find_model_folder(io::FileSystem& files, const std::string& model) {
  if (!files.is_directory(model)) {
    throw ConfigError(
        fmt::format("--model {}: no such folder. Give a folder with config.json and "
                    "model.safetensors, the folder of a run, or a preset such as preset:small.",
                    model));
  }
  const std::filesystem::path folder = model;
  if (files.exists(folder / kConfigName)) return folder;
  const auto latest = latest_checkpoint(files, folder);
  if (!latest) {
    throw ConfigError(fmt::format(
        "--model {}: there is neither a config.json nor a checkpoint in this folder. Give a "
        "model's folder, or the folder of a run that has saved.",
        model));
  }
  return *latest;
}

ModelSource find_model(io::FileSystem& files, const std::string& model) {
  if (model.starts_with(kPreset)) {
    return {.name = model,
            .config = model::preset(model.substr(kPreset.size())),
            .folder = {},
            .stored_config = {}};
  }
  const std::filesystem::path folder = find_model_folder(files, model);
  const std::filesystem::path path = folder / kConfigName;
  Json json = read_json(files, path);
  const model::Config config = model::parse_config(json, path.string());
  ModelSource source{
      .name = model, .config = config, .folder = folder, .stored_config = std::move(json)};
  if (stores_own_head(files, folder, config)) {
    source.config.tied = false;
    source.stored_config["tie_word_embeddings"] = false;
    source.head_note = fmt::format(
        "{} ties the head to the embedding, but the weights hold a head that differs from it: both "
        "are used, and saved with tie_word_embeddings false",
        path.string());
  }
  source.dropout_note = dropout_note(source);
  return source;
}

void verify_model(io::FileSystem& files, const ModelSource& source) {
  if (source.folder.empty() || !files.exists(source.folder / kManifestName)) return;
  verify(files, source.folder,
         {.required = {kModelFiles.begin(), kModelFiles.end()},
          .skip = {kStateName, kTrainingName},
          .advice = fmt::format("Use a copy or another checkpoint; --no-verify takes "
                                "'{}' as it is.",
                                source.folder.string())});
}

DType stored_dtype(io::FileSystem& files, const ModelSource& source) {
  if (source.folder.empty()) return DType::bf16;
  const WeightFiles weights(files, source.folder);
  Bytes wide = 0;
  Bytes all = 0;
  for (const SafetensorsReader& file : weights.files()) {
    for (const StoredTensor& tensor : file.tensors()) {
      all += tensor.bytes;
      if (tensor.type == StoredType::f32) wide += tensor.bytes;
    }
  }
  return 2 * wide > all ? DType::f32 : DType::bf16;
}

void check_weights(io::FileSystem& files, const ModelSource& source) {
  if (source.folder.empty()) return;
  const WeightFiles weights(files, source.folder);
  find_tensors(weights, model::parameters_of(source.config), source.config);
}

void load_weights(io::FileSystem& files, const ModelSource& source,
                  const model::Parameters& parameters, const WeightSink& sink) {
  const WeightFiles weights(files, source.folder);
  const List<Place> places = find_tensors(weights, parameters, source.config);
  std::vector<std::byte> stored;
  std::vector<float> values;
  for (int p = 0; p < places.count(); ++p) {
    const model::Parameter& parameter = parameters.all[p];
    const auto [file, tensor] = places[p];
    const Bytes element = size_of(tensor->type);
    for (std::int64_t first = 0; first < parameter.count(); first += kWeightPiece) {
      const std::int64_t n = std::min(kWeightPiece, parameter.count() - first);
      stored.resize(to_size(n * element));
      values.resize(to_size(n));
      file->read(*tensor, first * element, stored);
      widen(tensor->type, stored, values);
      const auto bad = std::find_if_not(values.begin(), values.end(),
                                        [](float value) { return std::isfinite(value); });
      if (bad != values.end()) {
        throw FormatError(fmt::format(
            "{}: tensor {} has the value {} at element {}; weights must be finite: get the file "
            "again, or mend the model that was saved",
            file->path().string(), in_quotes(tensor->name), *bad, first + (bad - values.begin())));
      }
      sink(p, first, values);
    }
  }
}

// Making values and handing them on overlap: while the sink has a piece, the pool makes the next.
void initialize_weights(ThreadPool& pool, const model::Config& config,
                        const model::Parameters& parameters, std::uint64_t seed,
                        const WeightSink& sink) {
  constexpr std::int64_t grain = 2048;
  const model::Initializer initializer(config, seed);
  struct Piece {
    int parameter = 0;
    std::int64_t first = 0;
    std::vector<float> values;
  };
  Piece made;  // empty before the first
  Piece next;
  const auto hand_on = [&] {
    if (!made.values.empty()) sink(made.parameter, made.first, made.values);
  };
  for (int p = 0; p < static_cast<int>(parameters.all.size()); ++p) {
    const model::Parameter& parameter = parameters.all[p];
    for (std::int64_t first = 0; first < parameter.count(); first += kWeightPiece) {
      const std::int64_t n = std::min(kWeightPiece, parameter.count() - first);
      next.parameter = p;
      next.first = first;
      next.values.resize(to_size(n));
      pool.parallel_for(1 + (n + grain - 1) / grain, [&](std::int64_t job, int) {
        if (job == 0) return hand_on();
        const std::int64_t from = (job - 1) * grain;
        initializer.fill(parameter, first + from, std::min(grain, n - from),
                         next.values.data() + from);
      });
      std::swap(made, next);
    }
  }
  hand_on();
}

}  // namespace ebb::files
