// Where a chunk's weights are kept: with those of its block as one object, or, on a tier that gives
// and takes whole grains alone, in an object of its own, so that no chunk's last grain holds bytes
// of the next.
#pragma once

#include "base/list.h"
#include "plan/program.h"
#include "plan/workload.h"

namespace ebb::plan {

// Planes of so many elements one behind the other, each from a multiple of the alignment on.
List<Range> planes_apart(const Planes&, std::int64_t count, Bytes alignment);

// Adds the objects that weights live in, by block: persistent ones on these tiers. The program's
// chunks are those of the work.
void add_weight_homes(Program&, const Workload&, const List<Tier>& homes);

// A part for each plane.
List<Part> weight_home(const Program&, const Workload&, int chunk);

// From where the weights of a block live to an object that holds those of some of its parameters,
// as the passes read them: one copy for each plane, or for each chunk and plane. They are whole
// chunks.
struct WeightCopy {
  Part from;
  Part to;
};
List<WeightCopy> copies_of_weights(const Program&, const Workload&, int block,
                                   const TensorRange& of, ObjectId to);

}  // namespace ebb::plan
