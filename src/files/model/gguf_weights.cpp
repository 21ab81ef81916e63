#include "files/model/gguf_weights.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/gguf/config.h"

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
      files_.refuse(fmt::format("tensor {} is missing; get the file again, or convert it anew",
                                name.empty() ? parameter.name : name));
    }
    const GgufTensor& tensor = *place.in.tensor;
    if (tensor.shape != shape_of(parameter)) {
      throw FormatError(
          fmt::format("{}: tensor {} has shape [{}], but the file's keys make it [{}]",
                      place.in.part->file->path().string(), in_quotes(name),
                      fmt::join(tensor.shape, ", "), fmt::join(shape_of(parameter), ", ")));
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

void GgufWeights::read_stored(const Place& place, std::int64_t first, std::span<float> to) {
  const GgufTensor& tensor = *place.in.tensor;
  const Grain grain = grain_of(tensor.type);
  stored_.resize(to_size(grain.size_of(static_cast<std::int64_t>(to.size()))));
  place.in.part->file->read(tensor.offset + first / grain.per * grain.bytes, stored_);
  widen(tensor.type, stored_, to);
}

void GgufWeights::read(int parameter, std::int64_t first, std::span<float> to) {
  const Place& place = places_[to_size(parameter)];
  if (place.paired_rows == 0) {
    read_stored(place, first, to);
  } else {
    // Row by row, or by parts of rows, which begin and end with blocks as the piece does.
    while (!to.empty()) {
      const std::int64_t row = first / place.columns;
      const std::int64_t column = first % place.columns;
      const std::int64_t half = place.paired_rows / 2;
      const std::int64_t in_head = row % place.paired_rows;
      const std::int64_t stored = row - in_head + 2 * (in_head % half) + in_head / half;
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

std::string GgufWeights::where(int parameter) const {
  const auto& [part, tensor] = places_[to_size(parameter)].in;
  return fmt::format("{}: tensor {}", part->file->path().string(), in_quotes(tensor->name));
}

}  // namespace ebb::files
