// A file of a data set, open for reading at any offset. It must stay as it is while it is in use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/digest.h"
#include "ebb/units.h"
#include "io/file_system.h"
#include "text/data/unpacked_files.h"

namespace ebb::text {

// Reads from several threads at once are fine. Failures are IoErrors that name the file and say
// what to do.
class SourceFile {
 public:
  // Opens the file, and remembers its size and the time of its last change. Keeps a reference to
  // `files`.
  SourceFile(io::FileSystem& files, std::filesystem::path path);
  // A compressed file that was unpacked: what is read is its text, which nobody else can change.
  SourceFile(std::filesystem::path path, UnpackedText text);

  const std::filesystem::path& path() const { return path_; }
  // For messages: the path in quotes.
  std::string name() const;
  Bytes size() const { return text_ ? text_->bytes : stamp_.size; }
  // What lies on the disk: of a compressed file less than what is read.
  Bytes stored_bytes() const { return text_ ? text_->packed_bytes : stamp_.size; }
  // Of all bytes that lie there, where they have been read; else empty.
  std::string stored_digest() const { return text_ ? text_->packed_digest : std::string(); }

  // Fills `out`, all of which lies inside the file. Throws if the file is no longer what it was.
  void read(Bytes offset, std::span<std::byte> out) const;
  std::string read(Bytes offset, Bytes bytes) const;

  // Gives the descriptor back; reads open the file again, each time. Not while others read.
  void close() { kept_.reset(); }

 private:
  void require_unchanged(const io::File& file) const;

  io::FileSystem* files_ = nullptr;
  std::filesystem::path path_;
  std::unique_ptr<io::File> kept_;  // nullptr: opened for each read
  io::FileStamp stamp_;             // of when it was opened first
  std::optional<UnpackedText> text_;
};

// Where the first byte of the file is that is not UTF-8. Where there is none, all of it was read,
// and added to `digest`.
std::optional<Bytes> find_invalid_utf8(const SourceFile& file, Digest& digest);

// Where a file's text begins: behind the mark that some editors put before UTF-8.
Bytes text_begin(const SourceFile& file);

// Throws FormatError for a file that begins like UTF-16 or UTF-32.
void refuse_wide_text(std::string_view beginning, const SourceFile& file);

}  // namespace ebb::text
