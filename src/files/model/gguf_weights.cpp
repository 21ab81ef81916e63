#include "files/model/gguf_weights.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/gguf/config.h"
#include "kernels/reference/weight_blocks.h"

namespace ebb::files {
namespace {

// A tensor that no parameter is made of.
[[noreturn]] void refuse_surplus(const GgufFiles& files, const model::Parameters& parameters,
                                 const model::Config& config) {
  std::vector<std::string> known = {std::string(kGgufRotaryFactors)};
  for (const model::Parameter& parameter : parameters.all) {
    known.push_back(gguf_name(parameter.name));
  }
  std::ranges::sort(known);
  for (const GgufPart& part : files.parts()) {
    for (const GgufTensor& tensor : part.header.tensors) {
      if (std::ranges::binary_search(known, tensor.name)) continue;
      throw FormatError(fmt::format(
          "{}: tensor {} does not belong to a {} model with this file's keys, so Ebb would leave "
          "out what it is for",
          part.file->path().string(), in_quotes(tensor.name), config.family));
    }
  }
  files.refuse("a tensor is there that belongs to no parameter");
}

}  // namespace

GgufWeights::GgufWeights(io::FileSystem& files, const ModelSource& source,
                         const model::Parameters& parameters)
    : files_(files, source.file) {
  const bool paired = pairs_rotated_rows(files_);
  for (const model::Parameter& parameter : parameters.all) {
    const std::string name = gguf_name(parameter.name);
    Place place{.in = files_.find(name)};
    if (place.in.tensor == nullptr) {
      files_.refuse(fmt::format("tensor {} is missing{}", name.empty() ? parameter.name : name,
                                parameter.matrix || name.ends_with("_norm.weight")
                                    ? "; get the file again, or convert it anew"
                                    : ", though the file has other biases of the kind: Ebb does "
                                      "not compute such a model"));
    }
    const GgufTensor& tensor = *place.in.tensor;
    if (tensor.shape != shape_of(parameter)) {
      throw FormatError(
          fmt::format("{}: tensor {} has shape [{}], but the file's keys make it [{}]",
                      place.in.part->file->path().string(), in_quotes(name),
                      fmt::join(tensor.shape, ", "), fmt::join(shape_of(parameter), ", ")));
    }
    if (!parameter.matrix && grain_of(tensor.type).per > 1) {
      throw FormatError(
          fmt::format("{}: tensor {} is a vector in blocks ({}); Ebb reads vectors as F32, F16 or "
                      "BF16. Convert "
                      "the model anew.",
                      place.in.part->file->path().string(), in_quotes(name), name_of(tensor.type)));
    }
    if (parameter.matrix) place.columns = parameter.cols;
    if (paired && is_rotated_in_gguf(name)) place.paired_rows = source.config.head_dim;
    if (is_norm_in_gguf(name)) place.offset = static_cast<float>(source.config.norm_offset);
    places_.push_back(place);
  }
  const bool factors = files_.find(kGgufRotaryFactors).tensor != nullptr;
  if (files_.tensor_count() != places_.size() + (factors ? 1 : 0)) {
    refuse_surplus(files_, parameters, source.config);
  }
}

namespace {

// The row in the file of a row of a parameter: rows of a head lie in pairs, one of each half.
std::int64_t row_in_file(std::int64_t row, std::int64_t paired_rows) {
  if (paired_rows == 0) return row;
  const std::int64_t half = paired_rows / 2, in_head = row % paired_rows;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

}  // namespace

void GgufWeights::read_stored(const Place& place, std::int64_t first, std::span<float> to) {
  const GgufTensor& tensor = *place.in.tensor;
  const Grain grain = grain_of(tensor.type);
  stored_.resize(to_size(grain.size_of(static_cast<std::int64_t>(to.size()))));
  place.in.part->file->read(tensor.offset + first / grain.per * grain.bytes, stored_);
  kernels::widen_blocks(tensor.type, stored_, to);
}

void GgufWeights::read(int parameter, std::int64_t first, std::span<float> to) {
  const Place& place = places_[to_size(parameter)];
  if (place.paired_rows == 0) {
    read_stored(place, first, to);
  } else {
    // Row by row, or by parts of rows, which begin and end with blocks as the piece does.
    while (!to.empty()) {
      const std::int64_t column = first % place.columns;
      const std::int64_t stored = row_in_file(first / place.columns, place.paired_rows);
      const auto n = std::min(static_cast<std::int64_t>(to.size()), place.columns - column);
      read_stored(place, stored * place.columns + column, to.first(to_size(n)));
      to = to.subspan(to_size(n));
      first += n;
    }
    return;
  }
  if (place.offset != 0) {
    for (float& value : to) value -= place.offset;
  }
}

kernels::WeightType GgufWeights::type(int parameter) const {
  return places_[to_size(parameter)].in.tensor->type;
}

void GgufWeights::read_rows(int parameter, std::int64_t first, std::span<std::byte> to) {
  const Place& place = places_[to_size(parameter)];
  const GgufTensor& tensor = *place.in.tensor;
  const Bytes row = grain_of(tensor.type).size_of(place.columns);
  io::File& file = *place.in.part->file;
  if (place.paired_rows == 0) return file.read(tensor.offset + first * row, to);
  for (; !to.empty(); to = to.subspan(to_size(row)), ++first) {
    file.read(tensor.offset + row_in_file(first, place.paired_rows) * row, to.first(to_size(row)));
  }
}

std::string GgufWeights::where(int parameter) const {
  const auto& [part, tensor] = places_[to_size(parameter)].in;
  return fmt::format("{}: tensor {}", part->file->path().string(), in_quotes(tensor->name));
}

}  // namespace ebb::files
