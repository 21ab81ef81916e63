#include "plan/weight_parts.h"

namespace ebb::plan {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// Chunk's part of a piece that holds the weights of all of its block.
std::vector<Part> in_block(const Program& program, const Workload& work, int c, ObjectId object) {
  const Chunk& chunk = program.chunks[at(c)];
  const Block& block = work.blocks[at(chunk.block)];
  std::vector<Part> parts;
  for (const Range& range : block.weights.ranges(block.parameters, chunk.first, chunk.count)) {
    parts.push_back({object, range});
  }
  return parts;
}

}  // namespace

std::vector<Range> planes_apart(const Planes& planes, std::int64_t count, Bytes alignment) {
  std::vector<Range> ranges = planes.ranges(count, 0, count);
  Bytes end = 0;
  for (Range& range : ranges) {
    range.first = end;
    end = align_up(end + range.bytes, alignment);
  }
  return ranges;
}

std::vector<Part> weight_home(const Program& program, const Workload& work, int c) {
  const Chunk& chunk = program.chunks[at(c)];
  const ObjectId own = program.persistent.chunk_weights[at(c)];
  if (own < 0) return in_block(program, work, c, program.persistent.weights[at(chunk.block)]);
  std::vector<Part> parts;
  for (const Range& range :
       planes_apart(work.blocks[at(chunk.block)].weights, chunk.count, program[own].alignment)) {
    parts.push_back({own, range});
  }
  return parts;
}

std::vector<WeightCopy> copies_of_weights(const Program& program, const Workload& work, int b,
                                          ObjectId to) {
  const Block& block = work.blocks[at(b)];
  const ObjectId whole = program.persistent.weights[at(b)];
  if (whole >= 0) return {{{whole, {0, block.weights.bytes(block.parameters)}}, {to}}};
  std::vector<WeightCopy> copies;
  for (int c = 0; c < static_cast<int>(program.chunks.size()); ++c) {
    if (program.chunks[at(c)].block != b) continue;
    const auto from = weight_home(program, work, c);
    const auto here = in_block(program, work, c, to);
    for (std::size_t p = 0; p < from.size(); ++p) copies.push_back({from[p], here[p]});
  }
  return copies;
}

}  // namespace ebb::plan
