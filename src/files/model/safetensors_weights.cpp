#include "files/model/safetensors_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::files {
namespace {

void check_tensor(const SafetensorsWeights::Place& place, const model::Parameter& parameter) {
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
std::vector<SafetensorsWeights::Place> find_tensors(const WeightFiles& weights,
                                                    const model::Parameters& parameters,
                                                    const model::Config& config) {
  std::unordered_map<std::string_view, std::size_t> known;
  for (const model::Parameter& parameter : parameters.all) {
    known.emplace(parameter.name, known.size());
  }
  std::vector<SafetensorsWeights::Place> places(parameters.all.size());
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
      SafetensorsWeights::Place& place = places[found->second];
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

bool equal_values(const SafetensorsWeights::Place& a, const SafetensorsWeights::Place& b) {
  if (a.tensor->shape != b.tensor->shape) return false;
  if (!widens_to_float(a.tensor->type) || !widens_to_float(b.tensor->type)) return false;
  std::int64_t count = 1;
  for (const std::int64_t size : a.tensor->shape) count *= size;
  std::vector<std::byte> stored;
  std::vector<float> values[2];
  for (std::int64_t first = 0; first < count; first += kWeightPiece) {
    const std::int64_t n = std::min(kWeightPiece, count - first);
    for (const int side : {0, 1}) {
      const SafetensorsWeights::Place& place = side == 0 ? a : b;
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

}  // namespace

SafetensorsWeights::SafetensorsWeights(io::FileSystem& files, const ModelSource& source,
                                       const model::Parameters& parameters)
    : weights_(files, source.folder), places_(find_tensors(weights_, parameters, source.config)) {}

void SafetensorsWeights::read(int parameter, std::int64_t first, std::span<float> to) {
  read_at(parameter, first, to);
}

void SafetensorsWeights::read_at(int parameter, std::int64_t first, std::span<float> to) const {
  const auto [file, tensor] = places_[to_size(parameter)];
  const Bytes element = size_of(tensor->type);
  const std::size_t bytes = to.size() * to_size(element);
  const auto stored = std::make_unique_for_overwrite<std::byte[]>(bytes);
  file->read(*tensor, first * element, {stored.get(), bytes});
  widen(tensor->type, {stored.get(), bytes}, to);
}

kernels::WeightType SafetensorsWeights::type(int parameter) const {
  switch (places_[to_size(parameter)].tensor->type) {
    case StoredType::bf16: return kernels::WeightType::bf16;
    case StoredType::f16: return kernels::WeightType::f16;
    default: return kernels::WeightType::f32;  // others were refused
  }
}

void SafetensorsWeights::read_rows(int parameter, std::int64_t first, std::span<std::byte> to) {
  const auto [file, tensor] = places_[to_size(parameter)];
  file->read(*tensor, first * tensor->shape.back() * size_of(tensor->type), to);
}

std::string SafetensorsWeights::where(int parameter) const {
  const Place& place = places_[to_size(parameter)];
  return fmt::format("{}: tensor {}", place.file->path().string(), in_quotes(place.tensor->name));
}

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
    SafetensorsWeights::Place embedding;
    SafetensorsWeights::Place head;
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

}  // namespace ebb::files
