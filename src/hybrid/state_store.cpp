#include "hybrid/state_store.h"

#include <algorithm>

#include "base/digest.h"
#include "kernels/split_master.h"

namespace ebb::hybrid {

StateStore::StateStore(const std::vector<Parameter>& parameters, const std::vector<Chunk>& chunks,
                       const Memory& memory, device::Stream& stream)
    : parameters_(parameters),
      chunks_(chunks),
      memory_(memory),
      stream_(stream),
      chunks_of_(parameters.size()) {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    for (const Part& part : chunks[c].parts) {
      chunks_of_[at(part.parameter)].push_back(static_cast<int>(c));
    }
  }
}

optim::StateKind StateStore::kind_of(int parameter) const {
  return chunks_[at(chunks_of(parameter).front())].kind;
}

// Calls visit(chunk, part, index within the part, index within the request, count).
template <class Visit>
void StateStore::for_ranges(int parameter, std::int64_t first, std::int64_t count, Visit visit) {
  for (const int c : chunks_of(parameter)) {
    for (const Part& part : chunks_[at(c)].parts) {
      if (part.parameter != parameter) continue;
      const std::int64_t begin = std::max(first, part.in_parameter);
      const std::int64_t end = std::min(first + count, part.in_parameter + part.count);
      if (begin < end) visit(c, part, begin - part.in_parameter, begin - first, end - begin);
    }
  }
}

std::byte* StateStore::address(Plane plane, int c, std::int64_t in_chunk) const {
  const Chunk& chunk = chunks_[at(c)];
  return memory_.home(at(c)).state + optim::offset_of(plane, chunk.kind, chunk.count) +
         plane_bytes(plane, chunk.kind, in_chunk);
}

void StateStore::read(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                      void* to) {
  const optim::StateKind kind = kind_of(parameter);
  for_ranges(parameter, first, count,
             [&](int c, const Part& part, std::int64_t in_part, std::int64_t out, std::int64_t n) {
               const std::byte* from =
                   plane == Plane::weight
                       ? parameters_[at(parameter)].weight +
                             plane_bytes(plane, kind, part.in_parameter + in_part)
                       : address(plane, c, part.in_chunk + in_part);
               stream_.copy_now(static_cast<std::byte*>(to) + plane_bytes(plane, kind, out), from,
                                plane_bytes(plane, kind, n));
             });
}

void StateStore::write(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                       const void* from) {
  const optim::StateKind kind = kind_of(parameter);
  for_ranges(parameter, first, count,
             [&](int c, const Part& part, std::int64_t in_part, std::int64_t in, std::int64_t n) {
               const std::byte* source =
                   static_cast<const std::byte*>(from) + plane_bytes(plane, kind, in);
               const Bytes bytes = plane_bytes(plane, kind, n);
               if (plane != Plane::weight) {
                 return stream_.copy_now(address(plane, c, part.in_chunk + in_part), source, bytes);
               }
               stream_.copy_now(parameters_[at(parameter)].weight +
                                    plane_bytes(plane, kind, part.in_parameter + in_part),
                                source, bytes);
               if (std::byte* copies = memory_.home(at(c)).weight) {
                 stream_.copy_now(copies + plane_bytes(plane, kind, part.in_chunk + in_part),
                                  source, bytes);
               }
             });
}

void StateStore::take_weights() {
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    const Chunk& chunk = chunks_[c];
    if (chunk.kind.weight_type == DType::bf16) {
      std::byte* low = address(Plane::low, static_cast<int>(c), 0);
      const Bytes bytes = plane_bytes(Plane::low, chunk.kind, chunk.count);
      if (chunk.site == Site::resident) {
        stream_.submit([this, low, bytes] { stream_.fill(low, 0, bytes); });
      } else {
        std::fill_n(low, bytes, std::byte{0});
      }
    }
    if (chunk.site != Site::host) continue;
    for (const Part& part : chunk.parts) {
      stream_.copy_now(
          memory_.home(c).weight + plane_bytes(Plane::weight, chunk.kind, part.in_chunk),
          parameters_[at(part.parameter)].weight +
              plane_bytes(Plane::weight, chunk.kind, part.in_parameter),
          plane_bytes(Plane::weight, chunk.kind, part.count));
    }
  }
  stream_.synchronize();
}

void StateStore::read_master(int parameter, std::int64_t first, std::span<float> to) {
  const auto count = static_cast<std::int64_t>(to.size());
  if (kind_of(parameter).weight_type == DType::f32) {
    return read(Plane::weight, parameter, first, count, to.data());
  }
  auto* high = reinterpret_cast<bf16*>(staging().data());
  auto* low = reinterpret_cast<std::int16_t*>(staging().data() + Memory::kPiece * 2);
  read(Plane::weight, parameter, first, count, high);
  read(Plane::low, parameter, first, count, low);
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = kernels::join_master(high[i], low[i]);
}

void StateStore::read_master(int parameter, std::span<float> to) {
  const auto count = static_cast<std::int64_t>(to.size());
  for (std::int64_t first = 0; first < count; first += Memory::kPiece) {
    const std::int64_t n = std::min(Memory::kPiece, count - first);
    read_master(parameter, first, to.subspan(at(first), at(n)));
  }
}

std::string StateStore::weights_digest() {
  Digest digest;
  auto* masters = reinterpret_cast<float*>(staging().data() + Memory::kPiece * 4);
  for (int p = 0; p < static_cast<int>(parameters_.size()); ++p) {
    const std::int64_t count = parameters_[at(p)].count;
    for (std::int64_t first = 0; first < count; first += Memory::kPiece) {
      const std::span<float> piece(masters, at(std::min(Memory::kPiece, count - first)));
      read_master(p, first, piece);
      digest.add(std::as_bytes(piece));
    }
  }
  return digest.hex();
}

std::string StateStore::moments_digest() {
  Digest digest;
  for (int p = 0; p < static_cast<int>(parameters_.size()); ++p) {
    const std::int64_t count = parameters_[at(p)].count;
    const optim::StateKind kind = kind_of(p);
    for (const Plane plane : moment_planes(kind)) {
      for (std::int64_t first = 0; first < count; first += Memory::kPiece) {
        const std::int64_t n = std::min(Memory::kPiece, count - first);
        read(plane, p, first, n, staging().data());
        digest.add(staging().first(at(plane_bytes(plane, kind, n))));
      }
    }
  }
  return digest.hex();
}

}  // namespace ebb::hybrid
