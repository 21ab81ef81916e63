// The parameters and their optimizer states as one thing, wherever a program has placed their
// chunks: what loads, saves and digests use. Between steps only, with empty lanes.
#pragma once

#include <memory>

#include "engine/runtime.h"
#include "exec/executor.h"
#include "model/parameters.h"
#include "plan/program.h"
#include "states/store.h"

namespace ebb::engine {

using states::Plane;

// The objects that chunks are in.
class ProgramMemory : public states::ChunkMemory {
 public:
  // Keeps references to all of it.
  ProgramMemory(exec::Executor& executor, const plan::Program& program, const states::ChunkMap& map)
      : executor_(executor), program_(program), map_(map) {}

  void read(Plane plane, int chunk, const states::Part& part, void* to) override;
  void write(Plane plane, int chunk, const states::Part& part, const void* from) override;
  void clear(Plane plane, int chunk) override;

 private:
  // Where an element of a chunk's plane is kept.
  struct Kept {
    plan::ObjectId object = -1;
    Bytes first = 0;
  };
  Kept find(Plane plane, int chunk, std::int64_t in_chunk) const;

  exec::Executor& executor_;
  const plan::Program& program_;
  const states::ChunkMap& map_;
};

class ParameterStore : private ProgramMemory, public states::Store {
 public:
  // Keeps references to all of it. Takes kStagingBytes of host memory.
  ParameterStore(Runtime& runtime, exec::Executor& executor, const plan::Program& program,
                 const model::Parameters& parameters, const states::ChunkMap& map,
                 const states::StateKind& kind)
      : ParameterStore(runtime.device().allocate_host(kStagingBytes), runtime, executor, program,
                       parameters, map, kind) {}

  const model::Parameters& parameters() const { return parameters_; }
  const states::StateKind& kind() const { return kind_; }

  using states::Store::read;
  using states::Store::write;

 private:
  ParameterStore(std::unique_ptr<device::Buffer> staging, Runtime& runtime,
                 exec::Executor& executor, const plan::Program& program,
                 const model::Parameters& parameters, const states::ChunkMap& map,
                 const states::StateKind& kind)
      : ProgramMemory(executor, program, map),
        Store(map, *this, runtime.pool(), staging->data()),
        parameters_(parameters),
        kind_(kind),
        staging_(std::move(staging)) {}

  const model::Parameters& parameters_;
  states::StateKind kind_;
  std::unique_ptr<device::Buffer> staging_;
};

}  // namespace ebb::engine
