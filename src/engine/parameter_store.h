// The parameters and their optimizer states as one thing, wherever a program has placed their
// chunks: what loads, saves and digests use. Between steps only, with empty lanes.
#pragma once

#include <memory>

#include "base/function_ref.h"
#include "engine/runtime.h"
#include "exec/executor.h"
#include "model/parameters.h"
#include "plan/program.h"
#include "states/store.h"

namespace ebb::dist {
class Communicator;
}

namespace ebb::engine {

using states::Plane;

// The objects that chunks are in. Where ranks share the states rank 0 reads those of others, which
// serve it meanwhile; a rank's write of what it does not own does nothing. Weights are whole on
// every rank.
class ProgramMemory : public states::ChunkMemory {
 public:
  // Keeps references to all of it.
  ProgramMemory(exec::Executor& executor, const plan::Program& program, const states::ChunkMap& map,
                dist::Communicator* ranks)
      : executor_(executor), program_(program), map_(map), ranks_(ranks) {}

  void read(Plane plane, int chunk, const states::Part& part, void* to) override;
  void write(Plane plane, int chunk, const states::Part& part, const void* from) override;
  void clear(Plane plane, int chunk) override;

  // All ranks call it. Calls work() on rank 0, or where there is one rank; the others answer what
  // it reads, each from a buffer of kStagingBytes, until it has come to its end, and then return.
  void together(FunctionRef<void()> work, std::byte* buffer);

 private:
  // Where an element of a chunk's plane is kept.
  struct Kept {
    plan::ObjectId object = -1;
    Bytes first = 0;
  };
  Kept find(Plane plane, int chunk, std::int64_t in_chunk) const;
  bool owns(int chunk) const;
  // What rank 0 asks an owner for; a chunk of -1 for nothing more.
  struct Request {
    Plane plane{};
    int chunk = -1;
    states::Part part{};
  };
  void read_own(const Request& request, void* to);

  exec::Executor& executor_;
  const plan::Program& program_;
  const states::ChunkMap& map_;
  dist::Communicator* ranks_;
};

class ParameterStore : private ProgramMemory, public states::Store {
 public:
  // Keeps references to all of it. Takes kStagingBytes of host memory. With `ranks`, states are
  // theirs together.
  ParameterStore(Runtime& runtime, exec::Executor& executor, const plan::Program& program,
                 const model::Parameters& parameters, const states::ChunkMap& map,
                 const states::StateKind& kind, dist::Communicator* ranks = nullptr)
      : ParameterStore(runtime.device().allocate_host(kStagingBytes), runtime, executor, program,
                       parameters, map, kind, ranks) {}

  const model::Parameters& parameters() const { return parameters_; }
  const states::StateKind& kind() const { return kind_; }

  using states::Store::read;
  using states::Store::write;

  // Reads that need the states of other ranks: all of them call it, in the same order, and rank 0
  // alone does the work. What it throws is rank 0's business.
  void together(FunctionRef<void()> work) { ProgramMemory::together(work, staging()); }

 private:
  ParameterStore(std::unique_ptr<device::Buffer> staging, Runtime& runtime,
                 exec::Executor& executor, const plan::Program& program,
                 const model::Parameters& parameters, const states::ChunkMap& map,
                 const states::StateKind& kind, dist::Communicator* ranks)
      : ProgramMemory(executor, program, map, ranks),
        Store(map, *this, runtime.pool(), staging->data()),
        parameters_(parameters),
        kind_(kind),
        staging_(std::move(staging)) {}

  const model::Parameters& parameters_;
  states::StateKind kind_;
  std::unique_ptr<device::Buffer> staging_;
};

}  // namespace ebb::engine
