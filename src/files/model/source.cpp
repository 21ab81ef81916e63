#include "files/model/source.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/folder.h"
#include "files/gguf/config.h"
#include "files/json_file.h"
#include "files/model/gguf_tokenizer.h"
#include "files/model/safetensors_weights.h"
#include "files/run/checkpoint_files.h"
#include "files/weight_files.h"
#include "kernels/reference/weight_blocks.h"

namespace ebb::files {
namespace {

constexpr std::string_view kPreset = "preset:";

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

bool is_gguf_file(io::FileSystem& files, const std::filesystem::path& path) {
  if (files.is_directory(path) || !files.exists(path)) return false;
  const auto file = files.open(path);
  std::string head(to_size(std::min<Bytes>(file->size(), 4)), '\0');
  file->read(0, std::as_writable_bytes(std::span(head)));
  return is_gguf(head) || path.extension() == ".gguf";
}

ModelSource find_gguf_model(io::FileSystem& files, const std::string& model) {
  const GgufFiles gguf(files, model);
  ModelSource source{
      .name = model, .config = {}, .folder = {}, .stored_config = {}, .file = gguf.path()};
  source.config = model::parse_config(gguf_config(gguf), model + ", its keys as config.json");
  // All of it, as another reader of what is saved wants it.
  source.stored_config = model::to_json(source.config, name_of(DType::bf16));
  add_gguf_token_ids(gguf, source.stored_config);
  return source;
}

}  // namespace

std::filesystem::path find_model_folder(io::FileSystem& files, const std::string& model) {
  if (!files.is_directory(model)) {
    throw ConfigError(
        fmt::format("--model {}: {}. Give a folder with config.json and model.safetensors, a GGUF "
                    "file, the folder of a run, or a preset such as preset:small.",
                    model, files.exists(model) ? "not a folder" : "no such folder"));
  }
  const std::filesystem::path folder = model;
  if (files.exists(folder / kConfigName)) return folder;
  const auto latest = latest_checkpoint(files, folder);
  if (!latest) {
    throw ConfigError(fmt::format(
        "--model {}: there is neither a config.json nor a checkpoint in this folder. Give a "
        "model's folder, the folder of a run that has saved, or a GGUF file itself.",
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
  if (is_gguf_file(files, model)) return find_gguf_model(files, model);
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
  if (!source.has_weights()) return DType::bf16;
  Bytes wide = 0;
  Bytes all = 0;
  if (!source.file.empty()) {
    const GgufFiles weights(files, source.file);
    for (const GgufPart& part : weights.parts()) {
      for (const GgufTensor& tensor : part.header.tensors) {
        all += tensor.bytes;
        if (tensor.type == GgufType::f32) wide += tensor.bytes;
      }
    }
    return 2 * wide > all ? DType::f32 : DType::bf16;
  }
  const WeightFiles weights(files, source.folder);
  for (const SafetensorsReader& file : weights.files()) {
    for (const StoredTensor& tensor : file.tensors()) {
      all += tensor.bytes;
      if (tensor.type == StoredType::f32) wide += tensor.bytes;
    }
  }
  return 2 * wide > all ? DType::f32 : DType::bf16;
}

void check_weights(io::FileSystem& files, const ModelSource& source) {
  if (!source.has_weights()) return;
  open_weights(files, source, model::parameters_of(source.config));
}

void load_weights(io::FileSystem& files, const ModelSource& source,
                  const model::Parameters& parameters, const WeightSink& sink) {
  load_weights(files, source, parameters, sink, {}, {});
}

namespace {

void load_widened(WeightReader& weights, const model::Parameters& parameters, int p,
                  std::vector<float>& values, const WeightSink& sink) {
  const std::int64_t count = parameters.all[p].count();
  for (std::int64_t first = 0; first < count; first += kWeightPiece) {
    values.resize(to_size(std::min(kWeightPiece, count - first)));
    weights.read(p, first, values);
    const auto bad = std::find_if_not(values.begin(), values.end(),
                                      [](float value) { return std::isfinite(value); });
    if (bad != values.end()) {
      throw FormatError(fmt::format(
          "{} has the value {} at element {}; weights must be finite: get the file again, or "
          "mend the model that was saved",
          weights.where(p), *bad, first + (bad - values.begin())));
    }
    sink(p, first, values);
  }
}

void load_stored(WeightReader& weights, const model::Parameters& parameters, int p,
                 std::vector<std::byte>& bytes, const StoredSink& sink) {
  const model::Parameter& parameter = parameters.all[p];
  const kernels::WeightType type = weights.type(p);
  const Grain grain = grain_of(type);
  const Bytes row = grain.size_of(parameter.cols);
  const std::int64_t step = std::max<std::int64_t>(1, kWeightPiece / row);
  for (std::int64_t first = 0; first < parameter.rows; first += step) {
    bytes.resize(to_size(std::min(step, parameter.rows - first) * row));
    weights.read_rows(p, first, bytes);
    if (const std::int64_t bad = kernels::find_bad_block(type, bytes); bad >= 0) {
      throw FormatError(
          fmt::format("{} has a scale that is not finite, of the block at element {}; get the file "
                      "again",
                      weights.where(p), first * parameter.cols + bad * grain.per));
    }
    sink(p, first * row, bytes);
  }
}

}  // namespace

void load_weights(io::FileSystem& files, const ModelSource& source,
                  const model::Parameters& parameters, const WeightSink& sink,
                  const StoredTypes& kept, const StoredSink& stored) {
  const std::unique_ptr<WeightReader> weights = open_weights(files, source, parameters);
  std::vector<float> values;
  std::vector<std::byte> bytes;
  for (int p = 0; p < parameters.all.count(); ++p) {
    if (kept.contains(parameters.all[p].name)) {
      load_stored(*weights, parameters, p, bytes, stored);
    } else {
      load_widened(*weights, parameters, p, values, sink);
    }
  }
}

StoredTypes matrices_in_blocks(io::FileSystem& files, const ModelSource& source) {
  StoredTypes found;
  if (source.file.empty()) return found;
  const model::Parameters parameters = model::parameters_of(source.config);
  const std::unique_ptr<WeightReader> weights = open_weights(files, source, parameters);
  for (int p = 0; p < parameters.all.count(); ++p) {
    const kernels::WeightType type = weights->type(p);
    if (in_blocks(type)) found.emplace(parameters.all[p].name, type);
  }
  return found;
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
