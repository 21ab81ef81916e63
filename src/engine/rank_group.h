// The ranks that a launcher started for one run, as the run's session sees them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "dist/communicator.h"
#include "dist/launch.h"
#include "dist/watchdog.h"
#include "ebb/train.h"
#include "engine/runtime.h"

namespace ebb::engine {

class RankGroup {
 public:
  // Returns when all ranks are there. Throws ConfigError where the options ask for what several
  // ranks cannot do.
  explicit RankGroup(const TrainOptions& options);
  // Where an error ends the run the others are told, if they were not before; else waits until they
  // have come to this, too.
  ~RankGroup();

  bool alone() const { return launch_.alone(); }
  int count() const { return launch_.ranks; }
  // Rank 0 speaks and writes.
  bool leads() const { return launch_.rank == 0; }
  // Null where this rank is alone. For the thread that trains.
  dist::Communicator* communicator() const { return alone() ? nullptr : ranks_.get(); }

  // Of the machine's cores and memory, what is this rank's.
  int threads(int asked) const;
  MachineMemory share_of(const MachineMemory& machine) const;

  // What follows all ranks call in the same order.

  // Rank 0's path.
  std::optional<std::filesystem::path> agree_on(const std::optional<std::filesystem::path>& path);
  // The run stops where any rank was asked to, and is saved where rank 0 says so.
  struct Signals {
    bool stop = false;
    bool save = false;
  };
  Signals agree_on(Signals own);
  // Throws ConfigError that names the first rank whose settings are others, and the field.
  void check_same(const TrainOptions& options, const Json& key);

 private:
  dist::Launch launch_;
  std::unique_ptr<dist::Communicator> ranks_;
  std::unique_ptr<dist::Watchdog> watchdog_;
  int exceptions_;
};

}  // namespace ebb::engine
