// Small text files (configurations, manifests, results) in one piece.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "io/file_system.h"

namespace ebb::io {

// The whole file. Throws FormatError, before any memory is taken, where it is larger than
// `max_bytes`.
std::string read_text(FileSystem& files, const std::filesystem::path& path, Bytes max_bytes);

// For callers that will rename a file to `path`. Throws IoError where a folder, a device, a pipe or
// a name of the process's own output (/dev/stdout) is there: root may put a file in the place of
// those.
// Nothing there is good.
void check_replaceable(FileSystem& files, const std::filesystem::path& path);

// Writes `path`.partial, syncs and renames: after a crash at any moment `path` holds its old text
// or all of the new one. What is at `path` must be replaceable, as above. Two writers of one path
// at the same time are not supported.
void write_text_atomically(FileSystem& files, const std::filesystem::path& path,
                           std::string_view text);

// The same for a text that is made piece by piece: `make` hands each to the sink it is given.
using TextSink = FunctionRef<void(std::string_view)>;
void write_pieces_atomically(FileSystem& files, const std::filesystem::path& path,
                             FunctionRef<void(TextSink)> make);

}  // namespace ebb::io
