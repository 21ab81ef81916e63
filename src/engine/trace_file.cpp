#include "engine/trace_file.h"

#include <utility>

#include <fmt/format.h>

#include "ebb/error.h"
#include "io/text_file.h"

namespace ebb::engine {

TraceFile::TraceFile(io::FileSystem& files, std::string path)
    : files_(files), path_(std::move(path)) {
  if (!wanted()) return;
  const std::filesystem::path file(path_);
  if (files_.is_directory(file)) {
    throw IoError(fmt::format("--trace {}: this is a folder; give the path of a file", path_));
  }
  try {
    if (!files_.exists(io::parent_of(file))) files_.make_directories(io::parent_of(file));
    io::check_replaceable(files_, file);
    const std::filesystem::path probe = path_ + ".partial";
    files_.create(probe);
    files_.remove_all(probe);
  } catch (const IoError& error) {
    throw IoError(
        fmt::format("--trace {}: no trace can be written there: {}", path_, error.what()));
  }
}

void TraceFile::write(std::span<const plan::Trace> traces) {
  io::write_pieces_atomically(files_, path_,
                              [&](io::TextSink sink) { plan::write_trace(traces, sink); });
}

}  // namespace ebb::engine
