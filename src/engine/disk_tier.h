// A disk as a tier of a run: what --disk says, its place in the topology, and its memory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ebb/train.h"
#include "engine/training_run.h"
#include "exec/disk_space.h"
#include "io/file_system.h"

namespace ebb::engine {

// Every topology with a disk has it behind device and host.
inline constexpr plan::Tier kDisk{2};

// One for each drive. Without bytes a folder may hold most of what its disk has left, which `files`
// says; null where the folders are another machine's, whose bytes must be given. Throws ConfigError
// that names the flag.
std::vector<exec::DiskFolder> find_disks(const std::vector<ebb::DiskFolder>& asked,
                                         io::FileSystem* files);

// A topology with a disk behind it, the disk's limit and memory, and what it takes of the host's.
struct DiskTier {
  std::shared_ptr<const plan::Topology> topology;
  Bytes limit = 0;
  std::vector<plan::Extra> extras;
  PlannedMemory::MakeSpace make_space;
};
// `used`: the most that may be put there. `host`: the limit of host memory, by which pieces are
// cut.
DiskTier make_disk_tier(const plan::Topology& without, const std::vector<exec::DiskFolder>& folders,
                        Bytes used, Bytes host, std::function<void(const std::string&)> note = {},
                        io::QueueOptions queue = {});

// Gives the run a disk: the tier, its lanes, its limit, its memory and what it takes of the host's.
// `note` hears what the machine does not let it do. `most`: a bound on what the run puts there,
// where it is less than training may.
void add_disk(TrainingSettings& settings, const std::vector<exec::DiskFolder>& folders,
              std::function<void(const std::string&)> note = {}, io::QueueOptions queue = {},
              std::optional<Bytes> most = {});

// What the folders of the options are to the settings that were made of them; nothing where there
// are none.
void add_disks_of(const TrainOptions& options, io::FileSystem* files, TrainingSettings& settings,
                  std::function<void(const std::string&)> note = {});

// What a run of so many steps reads from the disk and writes to it, for people; empty without a
// disk. `endurance`: what the drives may be written in their life.
std::string explain_disk(const plan::Plan& plan, std::int64_t steps,
                         std::optional<Bytes> endurance);

// No plan for these settings has more chunks: what a disk may hold is bounded by it.
std::int64_t chunks_at_most(const TrainingSettings& settings);

// Bytes that a step moves from one tier to another, as planned.
Bytes planned_bytes(const plan::Plan& plan, plan::Tier from, plan::Tier to);

}  // namespace ebb::engine
