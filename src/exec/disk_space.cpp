#include "exec/disk_space.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::exec {
namespace {

using io::Direction;

// What one request moves: long enough for a drive's full speed, short enough that some are under
// way at once.
constexpr Bytes kStripe = kMiB;

}  // namespace

// A queue for one call: one caller at a time is what a queue allows.
class DiskSpace::Turn {
 public:
  explicit Turn(DiskSpace& space) : space_(space) {
    std::unique_lock lock(space_.mutex_);
    space_.returned_.wait(lock, [&] { return !space_.free_.empty(); });
    mine_ = space_.free_.back();
    space_.free_.pop_back();
  }
  ~Turn() {
    {
      std::lock_guard lock(space_.mutex_);
      space_.free_.push_back(mine_);
    }
    space_.returned_.notify_one();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  io::DirectQueue& queue() const { return *space_.queues_[mine_]; }

 private:
  DiskSpace& space_;
  std::size_t mine_ = 0;
};

DiskSpace::DiskSpace(std::string name, Bytes bytes, const List<DiskFolder>& folders,
                     io::QueueOptions options, std::function<void(const std::string&)> note)
    : Space(std::move(name)), bytes_(bytes), note_(std::move(note)) {
  if (bytes % kGrain != 0) throw Error(fmt::format("{} bytes are not whole grains", bytes));
  of_zeros_ = checksum(List<std::byte>(kGrain));
  checksums_.assign(bytes / kGrain, of_zeros_);  // a new file reads as zeros
  cut_zones(folders);
  List<Bytes> sizes(folders.size(), 0);
  for (const Zone& zone : zones_) {
    for (Bytes from = zone.first; from < zone.end; from += kStripe) {
      const auto units = (from - zone.first) / kStripe;
      const auto files = static_cast<Bytes>(zone.files.size());
      const std::size_t file = zone.files[units % files];
      sizes[file] = zone.base + units / files * kStripe + std::min(kStripe, zone.end - from);
    }
  }
  for (std::size_t i = 0; i < folders.size(); ++i) {
    files_.push_back(io::DirectFile::create(folders[i].path, sizes[i]));
    if (files_.back().direct() || sizes[i] == 0 || !note_) continue;
    note_(fmt::format(
        "--disk {}: its file system has no direct access, or is in memory, which is then taken "
        "beside the limits; choose a folder on ext4, xfs or btrfs",
        folders[i].path.string()));
  }
  for (int i = 0; i < 2 * kLanes; ++i) {
    std::string why_not;
    queues_.push_back(io::make_direct_queue(options, &why_not));
    free_.push_back(to_size(i));
    if (i == 0 && !why_not.empty() && note_) note_("--disk: " + why_not);
  }
}

DiskSpace::~DiskSpace() = default;

// As long as several have room, bytes go round among them.
void DiskSpace::cut_zones(const List<DiskFolder>& folders) {
  Bytes level = 0, done = 0;
  while (done < bytes_) {
    Zone zone{.first = done, .base = level, .files = {}};
    Bytes lowest = 0;  // what the smallest of those with room has in all
    for (std::size_t i = 0; i < folders.size(); ++i) {
      const Bytes room = folders[i].most / kStripe * kStripe;
      if (room <= level) continue;
      zone.files.push_back(i);
      lowest = lowest == 0 ? room : std::min(lowest, room);
    }
    if (zone.files.empty()) {
      throw OutOfBudget(fmt::format("the {} needs {}, and its folders may hold {} less", name(),
                                    format_bytes(bytes_), format_bytes(bytes_ - done)),
                        {{name(), bytes_, done}}, {"more bytes of --disk PATH:BYTES"});
    }
    const Bytes room = (lowest - level) * static_cast<Bytes>(zone.files.size());
    done = zone.end = std::min(bytes_, done + room);
    level = lowest;
    zones_.push_back(std::move(zone));
  }
}

io::DirectRequest DiskSpace::request_at(Bytes offset) const {
  const auto zone = std::find_if(zones_.begin(), zones_.end(),
                                 [&](const Zone& each) { return offset < each.end; });
  const Bytes within = offset - zone->first;
  const auto files = static_cast<Bytes>(zone->files.size());
  const Bytes unit = within / kStripe, in_unit = within % kStripe;
  return {.file = &files_[zone->files[unit % files]],
          .offset = zone->base + unit / files * kStripe + in_unit,
          .bytes = std::min(kStripe - in_unit, zone->end - offset)};
}

List<io::DirectRequest> DiskSpace::requests(Bytes offset, std::byte* memory, Bytes bytes) const {
  List<io::DirectRequest> all;
  for (Bytes done = 0; done < bytes; done += all.back().bytes) {
    all.push_back(request_at(offset + done));
    all.back().memory = memory + done;
    all.back().bytes = std::min(all.back().bytes, bytes - done);
  }
  return all;
}

void DiskSpace::require_grains(Bytes offset, const void* memory, Bytes bytes) const {
  require_within(offset, bytes);
  if (offset % kGrain == 0 && bytes % kGrain == 0 &&
      reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0) {
    return;
  }
  throw Error(fmt::format("{}: {} bytes at {} are not whole grains of {}, or lie askew in memory",
                          name(), bytes, offset, kGrain));
}

void DiskSpace::run(Direction direction, Bytes offset, std::byte* memory, Bytes bytes) {
  const Turn turn(*this);
  // A caller that waited for one drive for minutes need not wait for it again.
  if (stalled_) {
    throw IoError(fmt::format("the {} has not answered before, and is not asked again", name()));
  }
  try {
    turn.queue().run(direction, requests(offset, memory, bytes));
  } catch (...) {
    if (turn.queue().broken()) stalled_ = true;
    throw;
  }
}

void DiskSpace::read(Bytes offset, void* memory, Bytes bytes) {
  require_grains(offset, memory, bytes);
  auto* const to = static_cast<std::byte*>(memory);
  run(Direction::read, offset, to, bytes);
  for (Bytes done = 0; done < bytes; done += kGrain) {
    if (checksum({to + done, to_size(kGrain)}) == checksums_[(offset + done) / kGrain]) continue;
    const io::DirectRequest where = request_at(offset + done);
    throw IoError(fmt::format("{}: the {} bytes at {} of the {} are not those that were written: "
                              "the drive or its cable "
                              "fails. Look at the kernel's log, and choose another --disk.",
                              where.file->folder().string(), kGrain, where.offset, name()),
                  where.file->folder().string(), where.offset);
  }
}

void DiskSpace::write(Bytes offset, const void* memory, Bytes bytes) {
  require_grains(offset, memory, bytes);
  auto* const from = static_cast<std::byte*>(const_cast<void*>(memory));  // only read
  for (Bytes done = 0; done < bytes; done += kGrain) {
    checksums_[(offset + done) / kGrain] = checksum({from + done, to_size(kGrain)});
  }
  run(Direction::write, offset, from, bytes);
}

// Most of what is cleared was never written.
void DiskSpace::clear(Bytes offset, Bytes bytes) {
  require_grains(offset, nullptr, bytes);
  constexpr Bytes most = kMiB;
  for (Bytes done = 0; done < bytes; done += most) {
    const Bytes part = std::min(most, bytes - done);
    const auto first = checksums_.begin() + (offset + done) / kGrain;
    const bool clear = std::all_of(first, first + part / kGrain,
                                   [&](std::uint64_t sum) { return sum == of_zeros_; });
    if (!clear) Space::clear(offset + done, part);
  }
}

void DiskSpace::prepare(std::byte* memory, Bytes bytes) {
  for (const auto& queue : queues_) {
    if (queue->name() != "io_uring" || queue->register_memory({memory, to_size(bytes)})) continue;
    if (!note_) return;
    return note_(
        "--disk: the system refuses to lock memory for it, so each transfer does so anew; "
        "`ulimit -l unlimited` helps");
  }
}

}  // namespace ebb::exec
