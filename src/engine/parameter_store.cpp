#include "engine/parameter_store.h"

#include <algorithm>

#include "kernels/split_master.h"
#include "optim/convert.h"

namespace ebb::engine {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Calls each(index) below `count`. In blocks of a length that the compiler knows: of other loops it
// makes no vectors, and splitting and joining masters took four times as long.
template <class Each>
void in_blocks(std::int64_t count, Each each) {
  constexpr std::int64_t block = 64;
  std::int64_t first = 0;
  for (; first + block <= count; first += block) {
    for (std::int64_t i = 0; i < block; ++i) each(first + i);
  }
  for (; first < count; ++first) each(first);
}

}  // namespace

ParameterStore::ParameterStore(Runtime& runtime, exec::Executor& executor,
                               const plan::Program& program, const model::Parameters& parameters,
                               const ChunkMap& map, const optim::StateKind& kind)
    : pool_(runtime.pool()),
      executor_(executor),
      program_(program),
      parameters_(parameters),
      map_(map),
      kind_(kind),
      staging_(runtime.device().allocate_host(kStagingBytes)) {}

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

ParameterStore::Kept ParameterStore::find(Plane plane, int c, std::int64_t in_chunk) const {
  const plan::Chunk& chunk = program_.chunks[at(c)];
  const optim::Grain grain = this->grain(plane);
  if (plane == Plane::weight) {
    const plan::ObjectId own = program_.persistent.chunk_weights[at(c)];
    if (own >= 0) return {own, grain.size_of(in_chunk)};
    return {program_.persistent.weights[at(chunk.block)], grain.size_of(chunk.first + in_chunk)};
  }
  return {program_.persistent.states[at(c)],
          optim::offset_of(plane, kind_, chunk.count) + grain.size_of(in_chunk)};
}

void ParameterStore::read(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                          void* to) {
  const optim::Grain grain = this->grain(plane);
  for_ranges(
      parameter, first, count, [&](int c, std::int64_t in_chunk, std::int64_t out, std::int64_t n) {
        const Kept from = find(plane, c, in_chunk);
        executor_.read_now(from.object, from.first,
                           static_cast<std::byte*>(to) + grain.size_of(out), grain.size_of(n));
      });
}

void ParameterStore::write(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                           const void* from) {
  const optim::Grain grain = this->grain(plane);
  for_ranges(parameter, first, count,
             [&](int c, std::int64_t in_chunk, std::int64_t in, std::int64_t n) {
               const std::byte* source = static_cast<const std::byte*>(from) + grain.size_of(in);
               const Kept to = find(plane, c, in_chunk);
               executor_.write_now(to.object, to.first, source, grain.size_of(n));
               const plan::ObjectId copy = program_.persistent.weight_copies[at(c)];
               if (plane != Plane::weight || copy < 0) return;
               executor_.write_now(copy, grain.size_of(in_chunk), source, grain.size_of(n));
             });
}

void ParameterStore::write_master(std::span<const int> parameters, std::int64_t first,
                                  std::span<const float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (kind_.weight_type == DType::f32) {
    for (const int p : parameters) write(Plane::weight, p, first, count, values.data());
    return;
  }
  for_pieces(count, [&](std::int64_t from, std::int64_t n) {
    const float* masters = values.data() + from;
    bf16* high = this->high();
    std::int16_t* low = this->low();
    in_blocks(n, [=](std::int64_t i) { high[i] = kernels::split_master(masters[i]).high; });
    in_blocks(n, [=](std::int64_t i) { low[i] = kernels::split_master(masters[i]).low; });
    for (const int p : parameters) {
      write(Plane::weight, p, first + from, n, high);
      write(Plane::low, p, first + from, n, low);
    }
  });
}

void ParameterStore::read_master(int parameter, std::int64_t first, std::span<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (kind_.weight_type == DType::f32)
    return read(Plane::weight, parameter, first, count, values.data());
  for_pieces(count, [&](std::int64_t from, std::int64_t n) {
    float* masters = values.data() + from;
    bf16* high = this->high();
    std::int16_t* low = this->low();
    read(Plane::weight, parameter, first + from, n, high);
    read(Plane::low, parameter, first + from, n, low);
    in_blocks(n, [=](std::int64_t i) { masters[i] = kernels::join_master(high[i], low[i]); });
  });
}

void ParameterStore::read_moment(Plane plane, int parameter, std::int64_t first,
                                 std::span<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (kind_.format == optim::StateFormat::exact) {
    return read(plane, parameter, first, count, values.data());
  }
  for_pieces(count, [&](std::int64_t from, std::int64_t n) {
    std::byte* moment = staging();
    std::byte* scales = moment + grain(plane).size_of(kPiece);
    read(plane, parameter, first + from, n, moment);
    if (grain(Plane::scales).bytes > 0) read(Plane::scales, parameter, first + from, n, scales);
    kernels::StateSpan span{.format = kind_.format, .count = n};
    (plane == Plane::first ? span.first : span.second) = moment;
    span.scales = reinterpret_cast<std::uint8_t*>(scales);
    float* wide = values.data() + from;
    plane == Plane::first ? optim::widen_moments(span, wide, nullptr)
                          : optim::widen_moments(span, nullptr, wide);
  });
}

void ParameterStore::clear_moments() {
  for (int c = 0; c < static_cast<int>(program_.chunks.size()); ++c) {
    for (const Plane plane : {Plane::first, Plane::second, Plane::scales}) {
      const optim::Grain grain = this->grain(plane);
      if (grain.bytes == 0) continue;
      const Kept moments = find(plane, c, 0);
      executor_.clear_now(moments.object, moments.first,
                          grain.size_of(program_.chunks[at(c)].count));
    }
  }
}

// Calls read(first, values) for the pieces. While one is digested, the next is read.
template <class Read>
void ParameterStore::digest_pieces(Digest& digest, std::int64_t count, Read read) {
  std::span<float> last;  // empty before the first
  for_pieces(count, [&](std::int64_t first, std::int64_t n) {
    const std::span<float> next(wide(first / kPiece % 2), at(n));
    pool_.parallel_for(2, [&](std::int64_t job, int) {
      job == 0 ? digest.add(std::as_bytes(last)) : read(first, next);
    });
    last = next;
  });
  digest.add(std::as_bytes(last));
}

std::string ParameterStore::weights_digest() {
  Digest digest;
  for (int p = 0; p < static_cast<int>(parameters_.all.size()); ++p) {
    digest_pieces(
        digest, parameters_.all[at(p)].count(),
        [&](std::int64_t first, std::span<float> values) { read_master(p, first, values); });
  }
  return digest.hex();
}

std::string ParameterStore::moments_digest() {
  Digest digest;
  for (int p = 0; p < static_cast<int>(parameters_.all.size()); ++p) {
    for (const Plane plane : {Plane::first, Plane::second}) {
      if (grain(plane).bytes == 0) continue;
      digest_pieces(digest, parameters_.all[at(p)].count(),
                    [&](std::int64_t first, std::span<float> values) {
                      read_moment(plane, p, first, values);
                    });
    }
  }
  return digest.hex();
}

}  // namespace ebb::engine
