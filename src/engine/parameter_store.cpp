#include "engine/parameter_store.h"

#include <algorithm>
#include <vector>

#include "base/digest.h"
#include "kernels/split_master.h"
#include "optim/convert.h"

namespace ebb::engine {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

ParameterStore::ParameterStore(Executor& executor, const plan::Program& program,
                               const model::Parameters& parameters, const ChunkMap& map,
                               const optim::StateKind& kind)
    : executor_(executor), program_(program), parameters_(parameters), map_(map), kind_(kind) {}

// Calls visit(chunk, index within the chunk, index within the request, count) for the parts of a
// parameter's range.
template <class Visit>
void ParameterStore::for_ranges(int parameter, std::int64_t first, std::int64_t count,
                                Visit visit) {
  for (const int c : map_.chunks_of[at(parameter)]) {
    for (const ChunkPart& part : map_.parts[at(c)]) {
      if (part.parameter != parameter) continue;
      const std::int64_t begin = std::max(first, part.in_parameter);
      const std::int64_t end = std::min(first + count, part.in_parameter + part.count);
      if (begin >= end) continue;
      visit(c, part.in_chunk + begin - part.in_parameter, begin - first, end - begin);
    }
  }
}

std::byte* ParameterStore::address(Plane plane, int c, std::int64_t in_chunk) {
  const plan::Chunk& chunk = program_.chunks[at(c)];
  const optim::Grain grain = this->grain(plane);
  if (plane == Plane::weight) {
    const Bytes bytes = grain.size_of(parameters_.blocks[at(chunk.block)].length);
    return executor_.address(program_.homes.weights[at(chunk.block)], bytes) +
           grain.size_of(chunk.first + in_chunk);
  }
  std::byte* base =
      executor_.address(program_.homes.states[at(c)], optim::state_bytes(kind_, chunk.count));
  return base + optim::offset_of(plane, kind_, chunk.count) + grain.size_of(in_chunk);
}

std::byte* ParameterStore::host_weight(int c, std::int64_t in_chunk) {
  const plan::ObjectId object = program_.homes.host_weights[at(c)];
  if (object < 0) return nullptr;
  const optim::Grain grain = this->grain(Plane::weight);
  return executor_.address(object, grain.size_of(program_.chunks[at(c)].count)) +
         grain.size_of(in_chunk);
}

void ParameterStore::read(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                          void* to) {
  const optim::Grain grain = this->grain(plane);
  for_ranges(parameter, first, count,
             [&](int c, std::int64_t in_chunk, std::int64_t out, std::int64_t n) {
               executor_.copy_now(static_cast<std::byte*>(to) + grain.size_of(out),
                                  address(plane, c, in_chunk), grain.size_of(n));
             });
}

void ParameterStore::write(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                           const void* from) {
  const optim::Grain grain = this->grain(plane);
  for_ranges(parameter, first, count,
             [&](int c, std::int64_t in_chunk, std::int64_t in, std::int64_t n) {
               const std::byte* source = static_cast<const std::byte*>(from) + grain.size_of(in);
               executor_.copy_now(address(plane, c, in_chunk), source, grain.size_of(n));
               if (plane != Plane::weight) return;
               if (std::byte* other = host_weight(c, in_chunk))
                 executor_.copy_now(other, source, grain.size_of(n));
             });
}

void ParameterStore::write_master(int parameter, std::int64_t first,
                                  std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (kind_.weight_type == DType::f32)
    return write(Plane::weight, parameter, first, count, values.data());
  std::vector<bf16> high(values.size());
  std::vector<std::int16_t> low(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const kernels::Halves halves = kernels::split_master(values[i]);
    high[i] = halves.high;
    low[i] = halves.low;
  }
  write(Plane::weight, parameter, first, count, high.data());
  write(Plane::low, parameter, first, count, low.data());
}

void ParameterStore::read_master(int parameter, std::int64_t first, std::span<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (kind_.weight_type == DType::f32)
    return read(Plane::weight, parameter, first, count, values.data());
  std::vector<bf16> high(values.size());
  std::vector<std::int16_t> low(values.size());
  read(Plane::weight, parameter, first, count, high.data());
  read(Plane::low, parameter, first, count, low.data());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = kernels::join_master(high[i], low[i]);
}

void ParameterStore::read_moment(Plane plane, int parameter, std::int64_t first,
                                 std::span<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (kind_.format == optim::StateFormat::exact) {
    return read(plane, parameter, first, count, values.data());
  }
  std::vector<std::byte> moment(at(grain(plane).size_of(count)));
  std::vector<std::byte> scales(at(grain(Plane::scales).size_of(count)));
  read(plane, parameter, first, count, moment.data());
  if (!scales.empty()) read(Plane::scales, parameter, first, count, scales.data());
  kernels::StateSpan span{.format = kind_.format, .count = count};
  (plane == Plane::first ? span.first : span.second) = moment.data();
  span.scales = reinterpret_cast<std::uint8_t*>(scales.data());
  plane == Plane::first ? optim::widen_moments(span, values.data(), nullptr)
                        : optim::widen_moments(span, nullptr, values.data());
}

void ParameterStore::clear_moments() {
  for (int c = 0; c < static_cast<int>(program_.chunks.size()); ++c) {
    for (const Plane plane : {Plane::first, Plane::second, Plane::scales}) {
      const optim::Grain grain = this->grain(plane);
      if (grain.bytes == 0) continue;
      executor_.clear_now(address(plane, c, 0), grain.size_of(program_.chunks[at(c)].count));
    }
  }
}

std::string ParameterStore::weights_digest() {
  Digest digest;
  std::vector<float> piece(at(kPiece));
  for (int p = 0; p < static_cast<int>(parameters_.all.size()); ++p) {
    const std::int64_t count = parameters_.all[at(p)].count();
    for (std::int64_t first = 0; first < count; first += kPiece) {
      const std::span<float> values(piece.data(), at(std::min(kPiece, count - first)));
      read_master(p, first, values);
      digest.add(std::as_bytes(values));
    }
  }
  return digest.hex();
}

std::string ParameterStore::moments_digest() {
  Digest digest;
  std::vector<float> piece(at(kPiece));
  for (int p = 0; p < static_cast<int>(parameters_.all.size()); ++p) {
    const std::int64_t count = parameters_.all[at(p)].count();
    for (const Plane plane : {Plane::first, Plane::second}) {
      if (grain(plane).bytes == 0) continue;
      for (std::int64_t first = 0; first < count; first += kPiece) {
        const std::span<float> values(piece.data(), at(std::min(kPiece, count - first)));
        read_moment(plane, p, first, values);
        digest.add(std::as_bytes(values));
      }
    }
  }
  return digest.hex();
}

}  // namespace ebb::engine
