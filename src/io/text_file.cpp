#include "io/text_file.h"

#include <system_error>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::io {

std::string read_text(FileSystem& files, const std::filesystem::path& path, Bytes max_bytes) {
  const std::unique_ptr<File> file = files.open(path);
  const Bytes size = file->size();
  if (size > max_bytes) {
    throw FormatError(
        fmt::format("'{}' is too large for what it should be: expected at most {} bytes, found {}. "
                    "Check that this is the right file.",
                    path.string(), max_bytes, size));
  }
  std::string text(to_size(size), '\0');
  file->read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

void check_replaceable(FileSystem& files, const std::filesystem::path& path) {
  if (!files.exists(path)) return;
  files.open(path);  // which it does with regular files only
  // Where the output goes to a regular file, /dev/stdout leads to one.
  std::error_code not_a_link;
  const std::filesystem::path target = std::filesystem::read_symlink(path, not_a_link);
  if (!not_a_link && target.string().starts_with("/proc/")) {
    throw IoError(
        fmt::format("cannot replace '{}': it is a name for an open file. Give the path of a file.",
                    path.string()));
  }
}

void write_text_atomically(FileSystem& files, const std::filesystem::path& path,
                           std::string_view text) {
  write_pieces_atomically(files, path, [text](TextSink sink) { sink(text); });
}

void write_pieces_atomically(FileSystem& files, const std::filesystem::path& path,
                             FunctionRef<void(TextSink)> make) {
  std::filesystem::path partial = path;
  partial += ".partial";
  check_replaceable(files, path);
  {
    const std::unique_ptr<File> file = files.create(partial);
    Bytes written = 0;
    make([&](std::string_view piece) {
      file->write(written, std::as_bytes(std::span(piece)));
      written += static_cast<Bytes>(piece.size());
    });
    file->sync();
  }
  files.rename(partial, path);
  files.sync_directory(parent_of(path));
}

}  // namespace ebb::io
