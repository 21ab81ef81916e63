// A file of a data set, open for reading at any offset. It must stay as it is while it is in use.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <time.h>

#include "base/digest.h"
#include "ebb/units.h"

namespace ebb::text {

// Reads from several threads at once are fine. Failures are IoErrors that name the file and say
// what to do.
class SourceFile {
 public:
  // Remembers the file's size and the time of its last change.
  explicit SourceFile(std::filesystem::path path);
  ~SourceFile();
  SourceFile(SourceFile&& other) noexcept;
  SourceFile& operator=(SourceFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  // For messages: the path in quotes.
  std::string name() const;
  Bytes size() const { return size_; }

  // Fills `out`, all of which lies inside the file. Throws if the file is no longer what it was.
  void read(Bytes offset, std::span<std::byte> out) const;
  std::string read(Bytes offset, Bytes bytes) const;

  // Gives the descriptor back; reads open the file again, each time.
  void close();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  Bytes size_ = 0;
  timespec changed_{};
};

// Where the first byte of the file is that is not UTF-8. Where there is none, all of it was read,
// and added to `digest`.
std::optional<Bytes> find_invalid_utf8(const SourceFile& file, Digest& digest);

// Where a file's text begins: behind the mark that some editors put before UTF-8.
Bytes text_begin(const SourceFile& file);

// Throws FormatError for a file that begins like UTF-16 or UTF-32.
void refuse_wide_text(std::string_view beginning, const SourceFile& file);

}  // namespace ebb::text
