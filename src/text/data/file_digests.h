// Digests of every byte of a data set's files: so that a run goes on with the data it began with.
//
// Opening JSONL, and text for a tokenizer, reads all of it anyway and digests it on the way. Other
// files may be hundreds of gigabytes that no one wants to wait for before the first step: they are
// read by a thread of its own, of low priority, while the run begins. A save needs the digests, and
// waits for them if it comes before they are known.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "text/data/data_set.h"

namespace ebb::text {

// Of all names, sizes and digests, in order: one for a whole data set.
std::string digest_of(const std::vector<FileRecord>& records);

class FileDigests {
 public:
  // Begins at once. Keeps a reference to `data`. With the object the thread ends, after the piece
  // that it is reading.
  explicit FileDigests(const DataSet& data);
  ~FileDigests();
  FileDigests(const FileDigests&) = delete;
  FileDigests& operator=(const FileDigests&) = delete;

  struct Result {
    // A file that could not be read to its end, or changed meanwhile, has no digest.
    std::vector<FileRecord> files;
    std::string problem;  // the first of those, as the error that reading it gave; empty: none
  };

  // Waits until all are known. `progress` is told every second of the waiting. For one thread.
  const Result& wait(const std::function<void(Bytes done, Bytes total)>& progress);

  // Whether they are known, now or within so many seconds.
  bool wait_for(double seconds);

  Bytes memory_bytes() const;

 private:
  void work(const std::stop_token& stop);
  // False where it was stopped.
  bool digest(std::size_t file, std::vector<std::byte>& buffer, const std::stop_token& stop);

  const DataSet& data_;
  Result result_;  // the thread's until done_
  Bytes total_ = 0;
  std::atomic<Bytes> read_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::jthread thread_;  // the last member: joined before the rest is gone
};

}  // namespace ebb::text
