// Digests of every byte of a data set's files: so that a run goes on with the data it began with.
//
// Opening JSONL, and text for a tokenizer, reads all of it anyway and digests it on the way. Other
// files may be hundreds of gigabytes that no one wants to wait for before the first step: they are
// read by a thread of its own, of low priority, while the run begins. A save needs the digests;
// where it comes before they are known, the thread that saves reads the rest itself.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/digest.h"
#include "base/list.h"
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

  // Asked before every piece, with how far it is.
  using GoOn = std::function<bool(Bytes done, Bytes total)>;

  // Reads what is left: takes over from the thread, so that no one waits for a thread that others
  // keep from running. nullptr where it was told not to go on before all was read. For one thread.
  const Result* finish(const GoOn& go_on);

  Bytes memory_bytes() const;

 private:
  void take_over();
  // For the thread, then for the one that took over: whether a piece is left, and to read it.
  bool left();
  void advance();

  const DataSet& data_;
  Result result_;
  Bytes total_ = 0;  // of the files that are to be read
  Bytes read_ = 0;
  std::size_t file_ = 0;  // that is being read, from its byte at_ on
  Bytes at_ = 0;
  Digest digest_;  // of what is before that
  List<std::byte> buffer_;
  std::jthread thread_;  // the last member: joined before the rest is gone
};

}  // namespace ebb::text
