// The file that --trace names.
#pragma once

#include <span>
#include <string>

#include "io/file_system.h"
#include "plan/trace.h"

namespace ebb::engine {

class TraceFile {
 public:
  // An empty path: nobody wants one. Makes the folder where it is missing. Throws IoError where no
  // file can be made there: now, not after hours of training.
  TraceFile(io::FileSystem& files, std::string path);

  bool wanted() const { return !path_.empty(); }
  // After a crash at any moment the file holds what it did before or all of the trace.
  void write(std::span<const plan::Trace> traces);
  void write(const plan::Trace& trace) { write({&trace, 1}); }

 private:
  io::FileSystem& files_;
  std::string path_;
};

}  // namespace ebb::engine
