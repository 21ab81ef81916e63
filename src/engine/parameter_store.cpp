#include "engine/parameter_store.h"

#include <algorithm>
#include <vector>

#include "base/digest.h"
#include "kernels/split_master.h"

namespace ebb::engine {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

ParameterStore::ParameterStore(Executor& executor, const plan::Program& program,
                               const model::Parameters& parameters, const ChunkMap& map,
                               DType dtype, optim::StateFormat format)
    : executor_(executor),
      program_(program),
      parameters_(parameters),
      map_(map),
      dtype_(dtype),
      format_(format) {}

DType ParameterStore::type_of(Plane plane) const {
  switch (plane) {
    case Plane::weight: return dtype_;
    case Plane::low: return DType::i16;
    case Plane::first:
    case Plane::second: break;
  }
  return DType::f32;
}

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
  if (plane == Plane::weight) {
    const Bytes bytes = parameters_.blocks[at(chunk.block)].length * size_of(dtype_);
    return executor_.address(program_.homes.weights[at(chunk.block)], bytes) +
           (chunk.first + in_chunk) * size_of(dtype_);
  }
  std::byte* base = executor_.address(program_.homes.states[at(c)],
                                      optim::state_bytes({format_, dtype_}, chunk.count));
  const optim::PlaneOffsets planes = optim::plane_offsets({format_, dtype_}, chunk.count);
  const Bytes start = plane == Plane::low     ? planes.low
                      : plane == Plane::first ? planes.first
                                              : planes.second;
  return base + start + in_chunk * size_of(type_of(plane));
}

std::byte* ParameterStore::host_weight(int c, std::int64_t in_chunk) {
  const plan::ObjectId object = program_.homes.host_weights[at(c)];
  if (object < 0) return nullptr;
  return executor_.address(object, program_.chunks[at(c)].count * size_of(dtype_)) +
         in_chunk * size_of(dtype_);
}

void ParameterStore::read(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                          void* to) {
  const Bytes element = size_of(type_of(plane));
  for_ranges(parameter, first, count,
             [&](int c, std::int64_t in_chunk, std::int64_t out, std::int64_t n) {
               executor_.copy_now(static_cast<std::byte*>(to) + out * element,
                                  address(plane, c, in_chunk), n * element);
             });
}

void ParameterStore::write(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                           const void* from) {
  const Bytes element = size_of(type_of(plane));
  for_ranges(parameter, first, count,
             [&](int c, std::int64_t in_chunk, std::int64_t in, std::int64_t n) {
               const std::byte* source = static_cast<const std::byte*>(from) + in * element;
               executor_.copy_now(address(plane, c, in_chunk), source, n * element);
               if (plane != Plane::weight) return;
               if (std::byte* other = host_weight(c, in_chunk))
                 executor_.copy_now(other, source, n * element);
             });
}

void ParameterStore::write_master(int parameter, std::int64_t first,
                                  std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (dtype_ == DType::f32) return write(Plane::weight, parameter, first, count, values.data());
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
  if (dtype_ == DType::f32) return read(Plane::weight, parameter, first, count, values.data());
  std::vector<bf16> high(values.size());
  std::vector<std::int16_t> low(values.size());
  read(Plane::weight, parameter, first, count, high.data());
  read(Plane::low, parameter, first, count, low.data());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = kernels::join_master(high[i], low[i]);
}

void ParameterStore::clear_moments() {
  const std::vector<float> zeros(at(kPiece), 0.0f);
  for (int p = 0; p < static_cast<int>(parameters_.all.size()); ++p) {
    const std::int64_t count = parameters_.all[at(p)].count();
    for (std::int64_t first = 0; first < count; first += kPiece) {
      const std::int64_t n = std::min(kPiece, count - first);
      write(Plane::first, p, first, n, zeros.data());
      write(Plane::second, p, first, n, zeros.data());
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
      for (std::int64_t first = 0; first < count; first += kPiece) {
        const std::int64_t n = std::min(kPiece, count - first);
        read(plane, p, first, n, piece.data());
        digest.add(std::as_bytes(std::span(piece.data(), at(n))));
      }
    }
  }
  return digest.hex();
}

}  // namespace ebb::engine
