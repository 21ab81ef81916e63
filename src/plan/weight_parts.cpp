#include "plan/weight_parts.h"

#include <fmt/format.h>

namespace ebb::plan {
namespace {

// The parts of an object with the weights of `all` parameters of a block that are those of `some`
// of them.
List<Part> parts_within(const Block& block, const TensorRange& all, const TensorRange& some,
                        ObjectId object) {
  List<Part> parts;
  for (const Range& range : block.weights.ranges(all.count, some.first - all.first, some.count)) {
    parts.push_back({object, range});
  }
  return parts;
}

}  // namespace

List<Range> planes_apart(const Planes& planes, std::int64_t count, Bytes alignment) {
  List<Range> ranges = planes.ranges(count, 0, count);
  Bytes end = 0;
  for (Range& range : ranges) {
    range.first = end;
    end = align_up(end + range.bytes, alignment);
  }
  return ranges;
}

void add_weight_homes(Program& program, const Workload& work, const List<Tier>& homes) {
  const Topology& topology = *program.topology;
  PersistentObjects& objects = program.persistent;
  const auto add = [&](Tier tier, Bytes bytes, std::string name) {
    const Bytes alignment = topology[tier].alignment;
    program.objects.push_back({.tier = tier,
                               .purpose = Purpose::weights,
                               .persistent = true,
                               .bytes = align_up(bytes, alignment),
                               .alignment = alignment,
                               .name = std::move(name)});
    return static_cast<ObjectId>(program.objects.size()) - 1;
  };
  objects.chunk_weights.assign(program.chunks.size(), -1);
  for (int b = 0; b < work.blocks.count(); ++b) {
    const Block& block = work.blocks[b];
    if (topology[homes[b]].addressable) {
      objects.weights.push_back(
          add(homes[b], block.weights.bytes(block.parameters), block.name + " weights"));
      continue;
    }
    objects.weights.push_back(-1);
    for (int c = 0; c < program.chunks.count(); ++c) {
      if (program.chunks[c].block != b) continue;
      const Range last =
          planes_apart(block.weights, program.chunks[c].count, topology[homes[b]].alignment).back();
      objects.chunk_weights[c] =
          add(homes[b], last.first + last.bytes, fmt::format("chunk {} weights", c));
    }
  }
}

List<Part> weight_home(const Program& program, const Workload& work, int c) {
  const Chunk& chunk = program.chunks[c];
  const ObjectId own = program.persistent.chunk_weights[c];
  if (own < 0) {
    const Block& block = work.blocks[chunk.block];
    return parts_within(block, {0, block.parameters}, {chunk.first, chunk.count},
                        program.persistent.weights[chunk.block]);
  }
  List<Part> parts;
  for (const Range& range :
       planes_apart(work.blocks[chunk.block].weights, chunk.count, program[own].alignment)) {
    parts.push_back({own, range});
  }
  return parts;
}

List<WeightCopy> copies_of_weights(const Program& program, const Workload& work, int b,
                                   const TensorRange& of, ObjectId to) {
  const Block& block = work.blocks[b];
  const ObjectId whole = program.persistent.weights[b];
  if (whole >= 0 && of.count == block.parameters) {
    return {{{whole, {0, block.weights.bytes(block.parameters)}}, {to}}};
  }
  List<WeightCopy> copies;
  const auto add = [&](const List<Part>& from, const List<Part>& here) {
    for (std::size_t p = 0; p < from.size(); ++p) copies.push_back({from[p], here[p]});
  };
  if (whole >= 0) {
    add(parts_within(block, {0, block.parameters}, of, whole), parts_within(block, of, of, to));
    return copies;
  }
  for (int c = 0; c < program.chunks.count(); ++c) {
    const Chunk& chunk = program.chunks[c];
    const bool is_of_it =
        chunk.block == b && chunk.first >= of.first && chunk.first < of.first + of.count;
    if (!is_of_it) continue;
    add(weight_home(program, work, c), parts_within(block, of, {chunk.first, chunk.count}, to));
  }
  return copies;
}

}  // namespace ebb::plan
