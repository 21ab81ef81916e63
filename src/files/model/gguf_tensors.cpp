#include "files/model/gguf_tensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/gguf/config.h"
#include "files/gguf/config_keys.h"
#include "files/gguf/gguf_files.h"
#include "files/model/gguf_weights.h"
#include "files/model/safetensors_weights.h"
#include "kernels/reference/weight_blocks.h"

namespace ebb::files {
namespace {

// Made of a model's parameters: what GgufWeights undoes is done here.
class ParameterTensors : public GgufTensors {
 public:
  explicit ParameterTensors(const model::Config& config)
      : parameters_(model::parameters_of(config)), factors_(gguf_rotary_factors(config)) {
    const bool paired = gguf_architecture(config) == "llama";
    for (const model::Parameter& parameter : parameters_.all) {
      OfferedTensor tensor{.name = gguf_name(parameter.name), .shape = shape_of(parameter)};
      Change change;
      if (paired && is_rotated_in_gguf(tensor.name)) {
        change.paired_rows = config.head_dim;
        tensor.grain = config.head_dim * parameter.cols;
      }
      if (is_norm_in_gguf(tensor.name)) change.offset = static_cast<float>(config.norm_offset);
      tensors_.push_back(std::move(tensor));
      changes_.push_back(change);
    }
    if (!factors_.empty()) {
      tensors_.push_back(
          {std::string(kGgufRotaryFactors), {static_cast<std::int64_t>(factors_.size())}});
    }
  }

  void read(std::size_t tensor, std::int64_t first, std::span<float> to) const final {
    if (tensor == changes_.size()) {
      std::ranges::copy(std::span(factors_).subspan(to_size(first), to.size()), to.begin());
      return;
    }
    read_parameter(static_cast<int>(tensor), first, to);
    const Change& change = changes_[tensor];
    if (change.paired_rows != 0) pair_rows(parameters_.all[tensor].cols, change.paired_rows, to);
    if (change.offset != 0) {
      for (float& value : to) value += change.offset;
    }
  }

 protected:
  virtual void read_parameter(int parameter, std::int64_t first, std::span<float> to) const = 0;

  const model::Parameters& parameters() const { return parameters_; }

 private:
  struct Change {
    std::int64_t paired_rows = 0;  // of a head, whose halves are to take turns; else 0
    float offset = 0;              // to be added
  };

  static void pair_rows(std::int64_t columns, std::int64_t rows, std::span<float> to) {
    const auto width = to_size(columns), half = to_size(rows / 2);
    std::vector<float> head(to_size(rows * columns));
    for (std::size_t at = 0; at < to.size(); at += head.size()) {
      float* const begin = to.data() + at;
      std::copy_n(begin, head.size(), head.data());
      for (std::size_t i = 0; i < half; ++i) {
        std::copy_n(head.data() + i * width, width, begin + 2 * i * width);
        std::copy_n(head.data() + (half + i) * width, width, begin + (2 * i + 1) * width);
      }
    }
  }

  model::Parameters parameters_;
  std::vector<float> factors_;
  std::vector<Change> changes_;
};

class FolderTensors final : public ParameterTensors {
 public:
  FolderTensors(io::FileSystem& files, const ModelSource& source)
      : ParameterTensors(source.config), weights_(files, source, parameters()) {}

  std::string where(std::size_t tensor) const override {
    return tensor < parameters().all.size() ? weights_.where(static_cast<int>(tensor))
                                            : tensors_[tensor].name;
  }

 private:
  void read_parameter(int parameter, std::int64_t first, std::span<float> to) const override {
    weights_.read_at(parameter, first, to);
  }

  SafetensorsWeights weights_;
};

class PresetTensors final : public ParameterTensors {
 public:
  PresetTensors(const ModelSource& source, std::uint64_t seed)
      : ParameterTensors(source.config), name_(source.name), initializer_(source.config, seed) {}

  std::string where(std::size_t tensor) const override {
    return fmt::format("{}: tensor {}", name_, tensors_[tensor].name);
  }

 private:
  void read_parameter(int parameter, std::int64_t first, std::span<float> to) const override {
    initializer_.fill(parameters().all[parameter], first, static_cast<std::int64_t>(to.size()),
                      to.data());
  }

  std::string name_;
  model::Initializer initializer_;
};

class StoredTensors final : public GgufTensors {
 public:
  StoredTensors(io::FileSystem& files, const ModelSource& source) : files_(files, source.file) {
    // Throws where tensors do not make the model that the keys say.
    GgufWeights(files, source, model::parameters_of(source.config));
    for (const GgufPart& part : files_.parts()) {
      for (const GgufTensor& tensor : part.header.tensors) {
        tensors_.push_back({.name = tensor.name,
                            .shape = tensor.shape,
                            .stored = tensor.type,
                            .grain = grain_of(tensor.type).per});
        places_.push_back({&part, &tensor});
      }
    }
  }

  void read(std::size_t tensor, std::int64_t first, std::span<float> to) const override {
    const GgufType& type = places_[tensor].tensor->type;
    const std::size_t bytes = to_size(grain_of(type).size_of(static_cast<std::int64_t>(to.size())));
    const auto stored = std::make_unique_for_overwrite<std::byte[]>(bytes);
    read_stored(tensor, first, {stored.get(), bytes});
    kernels::widen_blocks(type, {stored.get(), bytes}, to);
  }

  void read_stored(std::size_t tensor, std::int64_t first, std::span<std::byte> to) const override {
    const auto& [part, stored] = places_[tensor];
    part->file->read(stored->offset + grain_of(stored->type).size_of(first), to);
  }

  std::string where(std::size_t tensor) const override {
    const auto& [part, stored] = places_[tensor];
    return fmt::format("{}: tensor {}", part->file->path().string(), in_quotes(stored->name));
  }

 private:
  GgufFiles files_;
  std::vector<GgufFiles::Place> places_;
};

}  // namespace

std::int64_t OfferedTensor::count() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

void GgufTensors::read_stored(std::size_t tensor, std::int64_t, std::span<std::byte>) const {
  throw FormatError(fmt::format("{} is not stored as GGUF files have it", where(tensor)));
}

std::unique_ptr<GgufTensors> open_gguf_tensors(io::FileSystem& files, const ModelSource& source,
                                               std::uint64_t seed) {
  if (!source.file.empty()) return std::make_unique<StoredTensors>(files, source);
  if (!source.folder.empty()) return std::make_unique<FolderTensors>(files, source);
  return std::make_unique<PresetTensors>(source, seed);
}

}  // namespace ebb::files
