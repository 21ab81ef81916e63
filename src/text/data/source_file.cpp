#include "text/data/source_file.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/to_size.h"
#include "base/utf8.h"
#include "ebb/error.h"

namespace ebb::text {

SourceFile::SourceFile(io::FileSystem& files, std::filesystem::path path)
    : files_(&files), path_(std::move(path)), kept_(files.open(path_)), stamp_(kept_->stamp()) {}

SourceFile::SourceFile(std::filesystem::path path, UnpackedText text)
    : path_(std::move(path)), text_(std::move(text)) {}

std::string SourceFile::name() const { return fmt::format("'{}'", path_.string()); }

void SourceFile::read(Bytes offset, std::span<std::byte> out) const {
  if (text_) {
    text_->file->read(text_->begin + offset, out);
    return;
  }
  const std::unique_ptr<io::File> opened = kept_ ? nullptr : files_->open(path_);
  io::File& file = kept_ ? *kept_ : *opened;
  require_unchanged(file);
  try {
    file.read(offset, out);
  } catch (const IoError&) {
    // One that was cut short meanwhile ends too early, but that is not what its owner should hear.
    require_unchanged(file);
    throw;
  }
}

// Where lines begin and what an item holds was found when the file was opened.
void SourceFile::require_unchanged(const io::File& file) const {
  const io::FileStamp now = file.stamp();
  if (now == stamp_) return;
  throw IoError(
      fmt::format("{} has changed since the data was opened: it had {} bytes then and has {} "
                  "now{}; leave the data as it is during a run, restore the file and resume",
                  name(), size(), now.size, now.size == size() ? ", written later" : ""),
      path_.string());
}

std::string SourceFile::read(Bytes offset, Bytes bytes) const {
  std::string text(to_size(bytes), '\0');
  read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

std::optional<Bytes> find_invalid_utf8(const SourceFile& file, Digest& digest) {
  constexpr Bytes block = kMiB;
  constexpr Bytes longest = 4;  // bytes of a character
  Bytes digested = 0;
  for (Bytes first = 0; first < file.size();) {
    const Bytes count = std::min(block, file.size() - first);
    const std::string piece = file.read(first, count);
    digest.add(std::as_bytes(std::span(piece)).subspan(to_size(digested - first)));
    digested = first + count;
    const auto at = utf8::find_invalid(piece);
    if (!at) {
      first += count;
      continue;
    }
    // A character may go on in the next block, which then begins with it.
    const Bytes found = first + static_cast<Bytes>(*at);
    const bool cut = first + count < file.size() && found > first + count - longest;
    if (!cut) return found;
    first = found;
  }
  return std::nullopt;
}

Bytes text_begin(const SourceFile& file) {
  return file.size() >= 3 && file.read(0, 3) == "\xef\xbb\xbf" ? 3 : 0;
}

void refuse_wide_text(std::string_view beginning, const SourceFile& file) {
  const bool little = beginning.starts_with("\xff\xfe");
  if (!little && !beginning.starts_with("\xfe\xff")) return;
  throw FormatError(
      fmt::format("{} begins with the byte order mark of UTF-16 ({}); Ebb reads UTF-8. Convert it, "
                  "for example with: iconv -f UTF-16 -t UTF-8 FILE > NEW",
                  file.name(), little ? "FF FE" : "FE FF"));
}

}  // namespace ebb::text
