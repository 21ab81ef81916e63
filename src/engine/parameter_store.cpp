#include "engine/parameter_store.h"

#include "dist/communicator.h"

namespace ebb::engine {

ProgramMemory::Kept ProgramMemory::find(Plane plane, int c, std::int64_t in_chunk) const {
  if (plane != Plane::weight) {
    return {program_.persistent.states[c], map_[c].offset(plane, in_chunk)};
  }
  const Bytes element = size_of(map_[c].kind.weight_type);
  const plan::ObjectId own = program_.persistent.chunk_weights[c];
  if (own >= 0) return {own, in_chunk * element};
  const plan::Chunk& chunk = program_.chunks[c];
  return {program_.persistent.weights[chunk.block], (chunk.first + in_chunk) * element};
}

bool ProgramMemory::owns(int c) const {
  return ranks_ == nullptr || program_.chunks[c].owner == ranks_->rank();
}

void ProgramMemory::read_own(const Request& request, void* to) {
  const Kept from = find(request.plane, request.chunk, request.part.in_chunk);
  executor_.read_now(
      from.object, from.first, to,
      states::plane_bytes(request.plane, map_[request.chunk].kind, request.part.count));
}

void ProgramMemory::read(Plane plane, int c, const states::Part& part, void* to) {
  const Request request{plane, c, part};
  if (plane == Plane::weight || owns(c)) return read_own(request, to);
  const int owner = program_.chunks[c].owner;
  ranks_->send(owner, &request, sizeof request);
  ranks_->receive(owner, to, states::plane_bytes(plane, map_[c].kind, part.count));
}

void ProgramMemory::together(FunctionRef<void()> work, std::byte* buffer) {
  if (ranks_ == nullptr) return work();
  if (ranks_->rank() == 0) {
    const auto release = [&] {
      const Request nothing;
      List<dist::Send> sends;
      for (int other = 1; other < ranks_->size(); ++other) {
        sends.push_back({other, &nothing, sizeof nothing});
      }
      ranks_->exchange(sends, {});
    };
    try {
      work();
    } catch (const dist::RankError&) {
      throw;  // they are told otherwise
    } catch (...) {
      release();
      throw;
    }
    return release();
  }
  while (true) {
    Request request;
    ranks_->receive(0, &request, sizeof request);
    if (request.chunk < 0) return;
    read_own(request, buffer);
    ranks_->send(0, buffer,
                 states::plane_bytes(request.plane, map_[request.chunk].kind, request.part.count));
  }
}

void ProgramMemory::write(Plane plane, int c, const states::Part& part, const void* from) {
  if (plane != Plane::weight && !owns(c)) return;
  const Kept to = find(plane, c, part.in_chunk);
  const Bytes bytes = states::plane_bytes(plane, map_[c].kind, part.count);
  executor_.write_now(to.object, to.first, from, bytes);
  const plan::ObjectId copy = program_.persistent.weight_copies[c];
  if (plane != Plane::weight || copy < 0) return;
  executor_.write_now(copy, states::plane_bytes(plane, map_[c].kind, part.in_chunk), from, bytes);
}

void ProgramMemory::clear(Plane plane, int c) {
  if (!owns(c)) return;
  const Kept all = find(plane, c, 0);
  executor_.clear_now(all.object, all.first,
                      states::plane_bytes(plane, map_[c].kind, map_[c].count));
}

}  // namespace ebb::engine
