// How the caller's parameters are cut into chunks, and which chunk is updated where.
#pragma once

#include <vector>

#include "hybrid/settings.h"
#include "states/chunk_map.h"

namespace ebb::hybrid {

using states::Chunk;
using states::ChunkMap;
using states::Part;
using states::Plane;

// Chunks are in the order of the parameters, as far as types allow: a chunk's parts are of the same
// types. The chunks at the end are the host's, before them come those that are streamed, and the
// first stay. Depends on the list and the choices alone, so equal ones give equal chunks.
ChunkMap cut_chunks(const std::vector<Parameter>& parameters, const Choices& choices);

}  // namespace ebb::hybrid
