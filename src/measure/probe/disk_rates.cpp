#include "measure/probe/disk_rates.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <thread>

#include <fmt/format.h>

#include "base/list.h"
#include "base/rng.h"
#include "base/seconds_since.h"
#include "ebb/error.h"
#include "engine/disk_tier.h"

namespace ebb::measure {
namespace {

using exec::DiskSpace;
using Clock = std::chrono::steady_clock;

// So large that requests keep every queue full, as the transfers of a step do.
constexpr Bytes kPiece = 32 * kMiB;

// A lane of a disk as a plan has it: a thread that goes through its part of the space, piece by
// piece, in aligned memory of its own. start() and join() alternate.
class TimedLane {
 public:
  TimedLane(DiskSpace& space, bool writes) : space_(space), writes_(writes) {
    memory_.reset(static_cast<std::byte*>(::operator new(kPiece, kAlignment)));
    // Drives that compress must find nothing to.
    const CounterRng rng(7, writes ? 1 : 2);
    for (Bytes i = 0; i < kPiece; i += 8) {
      const std::uint64_t word = rng.bits(static_cast<std::uint64_t>(i));
      std::memcpy(memory_.get() + i, &word, 8);
    }
  }

  void start(Bytes first, Bytes end) {
    thread_ = std::thread([=, this] {
      try {
        for (Bytes at = first; at < end; at += kPiece) {
          const Bytes bytes = std::min(kPiece, end - at);
          writes_ ? space_.write(at, memory_.get(), bytes) : space_.read(at, memory_.get(), bytes);
        }
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
  }
  void join() {
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  // What direct transfers ask for on drives with blocks of 4 KiB.
  static constexpr std::align_val_t kAlignment{4096};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete(memory, kAlignment); }
  };

  DiskSpace& space_;
  bool writes_;
  std::unique_ptr<std::byte, Free> memory_;
  std::thread thread_;
  std::exception_ptr failure_;
};

// Bytes a second of as many lanes as a plan has, each over a part of the stretch. All lanes have
// ended on return, also where it throws what the first of them threw.
double rate(List<TimedLane>& lanes, Bytes first, Bytes end) {
  const Bytes count = lanes.count();
  const Bytes each = (end - first) / count / DiskSpace::kGrain * DiskSpace::kGrain;
  const auto start = Clock::now();
  for (Bytes i = 0; i < count; ++i) {
    lanes[i].start(first + i * each, first + (i + 1) * each);
  }
  std::exception_ptr failure;
  for (TimedLane& lane : lanes) {
    try {
      lane.join();
    } catch (...) {
      if (!failure) failure = std::current_exception();
    }
  }
  if (failure) std::rethrow_exception(failure);
  return static_cast<double>(each * count) / seconds_since(start);
}

List<TimedLane> lanes_of(DiskSpace& space, bool writes) {
  List<TimedLane> lanes;
  // Lanes must not move once their threads run.
  lanes.reserve(DiskSpace::kLanes);
  for (int i = 0; i < DiskSpace::kLanes; ++i) lanes.emplace_back(space, writes);
  return lanes;
}

}  // namespace

DiskRates measure_disk(const std::vector<exec::DiskFolder>& folders,
                       const std::function<void(const std::string&, double)>& tell,
                       const std::function<void(const std::string&)>& note) {
  Bytes bytes = 0;
  for (const exec::DiskFolder& folder : folders) bytes += folder.most / kMiB * kMiB;
  tell("room on the disk", 0);
  DiskSpace space("disk", bytes, folders, {}, note);
  List<TimedLane> readers = lanes_of(space, false), writers = lanes_of(space, true);
  const Bytes half = bytes / 2 / kMiB * kMiB;
  DiskRates rates{.queue = std::string(space.queue_name())};
  // Drives take the first writes into a fast cache. A run writes far more than that holds, so the
  // first half fills it and is not counted.
  tell("writing to the disk, up to what its cache holds", 0.05);
  rate(writers, 0, half);
  tell("writing to the disk", 0.35);
  rates.write = rate(writers, half, bytes);
  tell("reading from the disk", 0.65);
  rates.read = rate(readers, 0, bytes);
  // As much time for both: what ends sooner leaves the other alone, which little of it is.
  tell("both at once", 0.85);
  const double share = rates.write / (rates.read + rates.write);
  const Bytes written =
      std::max<Bytes>(kMiB, static_cast<Bytes>(static_cast<double>(bytes) * share * 0.5)) / kMiB *
      kMiB;
  std::exception_ptr failure;
  std::thread beside([&] {
    try {
      rates.write_beside = rate(writers, 0, written);
    } catch (...) {
      failure = std::current_exception();
    }
  });
  try {
    rates.read_beside = rate(readers, half, half + (bytes / 2 - written / 2) / kMiB * kMiB);
  } catch (...) {
    beside.join();
    throw;
  }
  beside.join();
  if (failure) std::rethrow_exception(failure);
  return rates;
}

std::vector<exec::DiskFolder> disks_to_measure(const std::vector<DiskFolder>& asked,
                                               io::FileSystem& files) {
  // More than the caches of most drives, and written in seconds.
  constexpr Bytes usual = 8 * kGiB;
  std::vector<exec::DiskFolder> folders = engine::find_disks(asked, &files);
  for (std::size_t i = 0; i < folders.size(); ++i) {
    if (!asked[i].bytes) folders[i].most = std::min(usual, folders[i].most);
    if (folders[i].most >= 64 * kMiB) continue;
    throw ConfigError(
        fmt::format("--disk {}: expected 64 MiB or more to write there", asked[i].path));
  }
  return folders;
}

Json to_json(const DiskRates& rates) {
  return {{"read_bytes_per_second", rates.read},
          {"write_bytes_per_second", rates.write},
          {"read_beside_bytes_per_second", rates.read_beside},
          {"write_beside_bytes_per_second", rates.write_beside},
          {"queue", rates.queue}};
}

void use_disk_rates(plan::Profile& profile, const DiskRates& rates) {
  constexpr std::string_view measured = "measured";
  profile.read_bytes_per_second = {rates.read, measured};
  profile.write_bytes_per_second = {rates.write, measured};
  // What both directions do at once, as reading: each at the share of its own speed that it kept.
  plan::add_shared_disk(
      profile,
      {rates.read * (rates.read_beside / rates.read + rates.write_beside / rates.write), measured});
}

}  // namespace ebb::measure
