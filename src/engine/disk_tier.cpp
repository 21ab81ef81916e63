#include "engine/disk_tier.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/chunking.h"
#include "ebb/error.h"
#include "kernels/optimizer_ops.h"

namespace ebb::engine {
namespace {

using exec::DiskSpace;

// Others write there too: checkpoints, logs.
constexpr double kShareOfDisk = 0.9;
// A transfer: long ones make fewer tasks, and plans sooner; four or more wait in host memory.
constexpr Bytes kShortest = kMiB;
constexpr Bytes kLong = 128 * kMiB;
constexpr Bytes kLongest = 256 * kMiB;  // where there would be more pieces than this
constexpr Bytes kManyPieces = 6000;
constexpr Bytes kPiecesOfHost = 96;

// States, weights, sums and inputs, a tied table's gradient where the vocabulary is cut, and of
// each chunk some grains that are not full.
Bytes most_on_disk(const TrainingSettings& s) {
  // Bytes a parameter in the largest formats, rounded up: a bound, as the plan is not known yet.
  constexpr Bytes each = 20, partly_filled = 5 * DiskSpace::kGrain;
  const std::int64_t parameters = model::parameters_of(s.config).count();
  const Bytes inputs = s.shape.tokens() * s.config.hidden * 4 * s.config.layers;
  const Bytes tied = s.config.tied ? s.config.vocabulary * s.config.hidden * 4 : 0;
  return each * parameters + inputs + tied + chunks_at_most(s) * partly_filled;
}

}  // namespace

// A chunk is as long as it may be, but for what it takes to end with a norm block, or it is the
// last of a tensor: of these a block has no more than this, with the pieces of a vocabulary.
std::int64_t chunks_at_most(const TrainingSettings& s) {
  constexpr std::int64_t short_ones = 16;
  const std::int64_t parameters = model::parameters_of(s.config).count();
  const std::int64_t longest =
      s.fixed.chunk_parameters.value_or(default_chunk_parameters(parameters) / kLeastChunkDivisor);
  const std::int64_t usual = std::max(kernels::kNormBlock, longest - kernels::kNormBlock);
  return parameters / usual + short_ones * (s.config.layers + 2);
}

std::vector<exec::DiskFolder> find_disks(const std::vector<ebb::DiskFolder>& asked,
                                         io::FileSystem* files) {
  std::vector<exec::DiskFolder> folders;
  for (const auto& [path, bytes] : asked) {
    if (bytes && *bytes < kMiB) {
      throw ConfigError(fmt::format("--disk {}:{}: expected 1 MiB or more", path, *bytes));
    }
    exec::DiskFolder folder{path, bytes.value_or(0)};
    if (files != nullptr) {
      if (!files->is_directory(folder.path)) {
        throw ConfigError(fmt::format("--disk {}: there is no such folder", path));
      }
      const Bytes left = files->available(folder.path);
      if (folder.most > left) {
        throw ConfigError(fmt::format("--disk {}: {} are asked for, but that disk has {} left",
                                      path, format_bytes(folder.most), format_bytes(left)));
      }
      if (folder.most == 0) {
        folder.most = static_cast<Bytes>(static_cast<double>(left) * kShareOfDisk);
      }
    }
    if (folder.most < kMiB) {
      throw ConfigError(
          files == nullptr
              ? fmt::format("--disk {}: of another machine its bytes must be said, as {}:BYTES",
                            path, path)
              : fmt::format("--disk {}: that disk has no room left", path));
    }
    folders.push_back(std::move(folder));
  }
  return folders;
}

DiskTier make_disk_tier(const plan::Topology& without, const std::vector<exec::DiskFolder>& folders,
                        Bytes used, Bytes host, std::function<void(const std::string&)> note,
                        io::QueueOptions queue) {
  plan::Topology topology = without;
  Bytes room = 0;
  for (const exec::DiskFolder& folder : folders) room += folder.most / kMiB * kMiB;
  used = std::min(room, used);
  const Bytes piece =
      std::clamp(host / kPiecesOfHost, kShortest, std::clamp(used / kManyPieces, kLong, kLongest));
  const plan::Tier disk = topology.add(plan::TierInfo{.name = "disk",
                                                      .alignment = DiskSpace::kGrain,
                                                      .addressable = false,
                                                      .largest_transfer = piece / kMiB * kMiB});
  for (int i = 1; i <= DiskSpace::kLanes; ++i) {
    const std::string number = i == 1 ? std::string() : fmt::format(" {}", i);
    topology.add(plan::LaneInfo{.name = "read" + number, .from = disk, .to = plan::Tier::host});
    topology.add(plan::LaneInfo{.name = "write" + number, .from = plan::Tier::host, .to = disk});
  }
  // What is late from the disk must not hold up the rest of the link.
  topology.add(plan::LaneInfo{.name = "through up",
                              .from = plan::Tier::host,
                              .to = plan::Tier::device,
                              .traffic = plan::Traffic::through});
  topology.add(plan::LaneInfo{.name = "through down",
                              .from = plan::Tier::device,
                              .to = plan::Tier::host,
                              .traffic = plan::Traffic::through});
  return {
      .topology = std::make_shared<const plan::Topology>(std::move(topology)),
      .limit = room,
      .extras = {{plan::Tier::host, "disk checksums", DiskSpace::checksum_bytes(used)},
                 {plan::Tier::host, "staging", exec::Executor::kAccessBytes + DiskSpace::kGrain}},
      .make_space = [folders, note = std::move(note), queue = std::move(queue)](plan::Tier,
                                                                                Bytes bytes) {
        return std::make_unique<DiskSpace>("disk", bytes, folders, queue, note);
      }};
}

void add_disk(TrainingSettings& s, const std::vector<exec::DiskFolder>& folders,
              std::function<void(const std::string&)> note, io::QueueOptions queue,
              std::optional<Bytes> most) {
  DiskTier disk = make_disk_tier(*s.topology, folders, most.value_or(most_on_disk(s)),
                                 s.limits[plan::Tier::host], std::move(note), std::move(queue));
  s.topology = std::move(disk.topology);
  s.fixed.below = kDisk;
  s.limits[kDisk] = disk.limit;
  s.extras.insert(s.extras.end(), disk.extras.begin(), disk.extras.end());
  s.make_space = std::move(disk.make_space);
}

void add_disks_of(const TrainOptions& options, io::FileSystem* files, TrainingSettings& settings,
                  std::function<void(const std::string&)> note) {
  if (options.disk.empty()) return;
  add_disk(settings, find_disks(options.disk, files), std::move(note));
}

Bytes planned_bytes(const plan::Plan& plan, plan::Tier from, plan::Tier to) {
  Bytes bytes = 0;
  for (const plan::Task& task : plan.program.tasks) {
    const plan::LaneInfo& lane = (*plan.workload.topology)[task.lane];
    const bool between =
        lane.kind == plan::LaneKind::transfer && lane.from == from && lane.to == to;
    if (between) bytes += task.moved;
  }
  return bytes;
}

std::string explain_disk(const plan::Plan& plan, std::int64_t steps,
                         std::optional<Bytes> endurance) {
  if (plan.workload.topology->tiers.size() <= kDisk.index) return {};
  const Bytes read = planned_bytes(plan, kDisk, plan::Tier::host);
  const Bytes written = planned_bytes(plan, plan::Tier::host, kDisk);
  if (read + written == 0) return "Nothing of it goes to the disk.\n";
  const double all = static_cast<double>(written) * static_cast<double>(steps);
  std::string text =
      fmt::format("A step reads {} from the disk and writes {}: {:.3g} TB in {} steps",
                  format_bytes(read), format_bytes(written), all * 1e-12, steps);
  if (endurance) {
    text += fmt::format(", {:.2g}% of the {:.3g} TB that its drives may be written",
                        100 * all / static_cast<double>(*endurance),
                        static_cast<double>(*endurance) * 1e-12);
  }
  return text + ".\n";
}

}  // namespace ebb::engine
