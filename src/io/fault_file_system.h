// A file system that fails on demand: for crash tests, and for rehearsing a full or dying disk on a
// real run. Without orders it does what the wrapped one does.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>

#include "base/function_ref.h"
#include "io/file_system.h"

namespace ebb::io {

// Mutating operations (creating, writing, syncing, making folders, renaming, removing) are counted
// from 1 since construction; orders refer to these counts. remove_all counts once for every file
// and folder it removes, so that a crash can fall between two of them. Reads
// are counted by themselves: the crash leaves them, and what a file is can always be asked. The
// files it opened may outlive it; the wrapped file system must not be destroyed before them.
class FaultFileSystem final : public FileSystem {
 public:
  struct Counts {
    std::int64_t operations = 0;  // all mutating operations, those below included
    std::int64_t writes = 0;
    std::int64_t syncs = 0;  // of files and of folders
    std::int64_t renames = 0;
    std::int64_t reads = 0;  // not among the operations
  };

  // `watched` is a small folder whose state after a loss of power is wanted; none for none. Only
  // this file system may change it up to the loss. Syncs in it are noted, not made: they are slow.
  explicit FaultFileSystem(FileSystem& wrapped, const std::filesystem::path& watched = {});
  ~FaultFileSystem() override;

  // The nth read (write, sync, rename) throws IoError for the errno value `code` and does nothing.
  void fail_read(std::int64_t nth, int code = EIO);
  void fail_write(std::int64_t nth, int code = ENOSPC);
  void fail_sync(std::int64_t nth, int code = EIO);
  void fail_rename(std::int64_t nth, int code = EIO);

  // The nth write puts down half of its bytes and then throws.
  void cut_write(std::int64_t nth, int code = ENOSPC);

  // The nth operation is where the machine stops: a write is torn in half, anything else does not
  // happen, and this and every later mutating operation throws IoError.
  void crash_at(std::int64_t nth);

  // Calls look(what was lost) after each of these losses of power, with the watched folder as it
  // would be then: files not synced since they were written are empty in all of them, and of the
  // changes of names that were not synced (DurableImage) none is lost, all are and, `one_by_one`,
  // each one alone and all but each one. `look` may change the folder.
  void after_each_loss(FunctionRef<void(const std::string& what)> look, bool one_by_one = true);

  Counts counts() const;
  bool crashed() const;

  std::unique_ptr<File> open(const std::filesystem::path& path) override;
  std::unique_ptr<File> create(const std::filesystem::path& path) override;
  bool exists(const std::filesystem::path& path) override;
  bool is_directory(const std::filesystem::path& path) override;
  bool is_file(const std::filesystem::path& path) override;
  bool is_link(const std::filesystem::path& path) override;
  std::vector<std::filesystem::path> list(const std::filesystem::path& directory) override;
  void make_directory(const std::filesystem::path& directory) override;
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  void remove_all(const std::filesystem::path& path) override;
  Bytes available(const std::filesystem::path& path) override;
  void sync_directory(const std::filesystem::path& directory) override;

 private:
  class State;
  class FaultFile;

  FileSystem& wrapped_;
  std::shared_ptr<State> state_;
};

}  // namespace ebb::io
