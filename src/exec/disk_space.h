// The memory of a disk tier for a run: files without a name in one or several folders, past the
// page cache, with a checksum of every grain in host memory. Nothing of it outlives the process.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/list.h"
#include "io/direct/direct_file.h"
#include "io/direct/direct_queue.h"
#include "memory/space.h"

namespace ebb::exec {

// Where a disk tier may put its bytes, and how many.
struct DiskFolder {
  std::filesystem::path path;
  Bytes most = 0;
};

class DiskSpace final : public memory::Space {
 public:
  // What is read and written is whole grains: each has a checksum.
  static constexpr Bytes kGrain = 64 * kKiB;
  // Lanes that may read, and that may write, at once.
  static constexpr int kLanes = 2;
  // Bytes of host memory that the checksums of so many bytes take.
  static Bytes checksum_bytes(Bytes bytes) { return bytes / kGrain * Bytes{sizeof(std::uint64_t)}; }

  // Takes all room on the drives. Bytes go round among the folders that have room left, so that
  // several drives work at once. `note` hears what of the machine makes this slower than it could
  // be. Throws IoError that names the folder where room cannot be had.
  DiskSpace(std::string name, Bytes bytes, const List<DiskFolder>& folders,
            io::QueueOptions options = {}, std::function<void(const std::string&)> note = {});
  ~DiskSpace() override;

  Bytes size() const override { return bytes_; }
  // Throws IoError where the bytes are not those that were written last.
  void read(Bytes offset, void* memory, Bytes bytes) override;
  void write(Bytes offset, const void* memory, Bytes bytes) override;
  void clear(Bytes offset, Bytes bytes) override;
  void prepare(std::byte* memory, Bytes bytes) override;
  bool stalled() const override { return stalled_; }

  std::string_view queue_name() const { return queues_.front()->name(); }

 private:
  // A stretch of the space that goes round among some of the files.
  struct Zone {
    Bytes first = 0;
    Bytes end = 0;
    Bytes base = 0;  // where it starts in each of its files
    List<std::size_t> files;
  };
  class Turn;  // of a queue

  void cut_zones(const List<DiskFolder>& folders);
  List<io::DirectRequest> requests(Bytes offset, std::byte* memory, Bytes bytes) const;
  io::DirectRequest request_at(Bytes offset) const;  // with the bytes up to the next file's
  void run(io::Direction direction, Bytes offset, std::byte* memory, Bytes bytes);
  void require_grains(Bytes offset, const void* memory, Bytes bytes) const;

  Bytes bytes_;
  List<Zone> zones_;
  List<io::DirectFile> files_;
  List<std::uint64_t> checksums_;  // by grain; only the lane that has the grain touches it
  std::uint64_t of_zeros_ = 0;
  std::function<void(const std::string&)> note_;
  std::atomic<bool> stalled_{false};
  std::mutex mutex_;
  std::condition_variable returned_;
  List<std::size_t> free_;  // queues that nobody has
  // Last: they end before the files they use.
  List<std::unique_ptr<io::DirectQueue>> queues_;
};

}  // namespace ebb::exec
