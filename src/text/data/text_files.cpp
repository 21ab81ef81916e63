#include "text/data/text_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

#include "base/digest.h"
#include "ebb/error.h"
#include "ebb/units.h"
#include "text/byte_tokenizer.h"

namespace ebb::text {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kTextCheckBytes = 8 * kKiB;
constexpr std::size_t kDigestBytes = 64 * kKiB;
constexpr std::size_t kReadBytes = 16 * kKiB;  // on the stack of the reading thread

// Most data sets are a few large files, which stay open; a folder of many small ones must not use
// up the process's descriptors (1024 by default), so the rest is opened for each read.
constexpr std::size_t kOpenFiles = 64;

// The length first, so that no two lists of strings give the same bytes.
void add_sized(Digest& digest, std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  digest.add(std::as_bytes(std::span(&size, 1)));
  digest.add(bytes);
}

std::string list(const std::vector<fs::path>& paths) {
  std::string text;
  for (const fs::path& path : paths) {
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", path.string());
  }
  return text;
}

[[noreturn]] void throw_shrunk(const fs::path& path, std::int64_t expected, std::int64_t found) {
  throw IoError(
      fmt::format("'{}' had {} bytes when the data was opened and now ends at {}; leave "
                  "the data as it is during a run, restore the file and resume",
                  path.string(), expected, found));
}

[[noreturn]] void throw_no_text(const std::vector<fs::path>& paths,
                                const std::vector<SkippedFile>& skipped) {
  constexpr auto kRemedy = "give a text file that is not empty, or a folder that holds one";
  if (paths.empty()) throw ConfigError(fmt::format("no data was given; {}", kRemedy));
  std::string why;
  if (!skipped.empty()) {
    why = fmt::format(" (skipped {} file{}, the first '{}' because {})", skipped.size(),
                      skipped.size() == 1 ? "" : "s", skipped.front().path.string(),
                      skipped.front().reason);
  }
  throw ConfigError(fmt::format("there is no text in {}{}; {} (hidden files are not looked for)",
                                list(paths), why, kRemedy));
}

}  // namespace

TextFiles::TextFiles(const std::vector<fs::path>& files_or_folders, const Tokenizer& tokenizer)
    : end_of_text_(tokenizer.end_of_text()) {
  if (dynamic_cast<const ByteTokenizer*>(&tokenizer) == nullptr) {
    throw ConfigError(
        fmt::format("text files cannot be read with the tokenizer '{}' without being "
                    "tokenized first; use the tokenizer 'bytes'",
                    tokenizer.name()));
  }
  DocumentPaths paths = find_documents(files_or_folders);
  skipped_ = std::move(paths.skipped);

  Digest digest;
  const std::string tokenizer_name = tokenizer.name();
  add_sized(digest, std::as_bytes(std::span(tokenizer_name)));
  std::vector<std::byte> head(kDigestBytes);
  for (DocumentPath& found : paths.found) {
    ReadOnlyFile file(found.path);
    const std::int64_t bytes = file.size();
    const auto beginning = std::span(head).first(
        static_cast<std::size_t>(std::min<std::int64_t>(bytes, kDigestBytes)));
    const std::size_t got = file.read_at(0, beginning);
    if (got < beginning.size()) throw_shrunk(found.path, bytes, static_cast<std::int64_t>(got));

    const auto checked = beginning.first(std::min(beginning.size(), kTextCheckBytes));
    if (bytes == 0) {
      skipped_.push_back({std::move(found.path), "it is empty"});
      continue;
    }
    if (std::ranges::find(checked, std::byte{0}) != checked.end()) {
      skipped_.push_back({std::move(found.path), "it has NUL bytes and so is not text"});
      continue;
    }
    // Sparse files may claim any size.
    if (bytes >= std::numeric_limits<std::int64_t>::max() - size_) {
      throw ConfigError(
          fmt::format("with '{}', which has {} bytes, the data has more tokens than "
                      "can be counted; leave it out",
                      found.path.string(), bytes));
    }
    add_sized(digest, std::as_bytes(std::span(found.name)));
    digest.add(std::as_bytes(std::span(&bytes, 1)));
    add_sized(digest, beginning);

    Document& document =
        documents_.emplace_back(Document{std::move(found.path), size_, bytes, std::nullopt});
    if (documents_.size() <= kOpenFiles) document.file = std::move(file);
    size_ += bytes + 1;
  }
  if (documents_.empty()) throw_no_text(files_or_folders, skipped_);
  digest_ = digest.hex();
}

void TextFiles::read(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  if (first < 0 || count > size_ || first > size_ - count) {
    throw std::out_of_range(fmt::format("tokens [{}, {} + {}) are not in a stream of {} tokens",
                                        first, first, count, size_));
  }
  if (out.empty()) return;
  auto document = std::ranges::upper_bound(documents_, first, {}, &Document::first) - 1;
  for (; !out.empty(); ++document) {
    const std::int64_t offset = first - document->first;
    const std::size_t text =
        std::min(out.size(), static_cast<std::size_t>(document->bytes - offset));
    if (text > 0) read_text(*document, offset, out.first(text));
    out = out.subspan(text);
    if (out.empty()) return;
    out.front() = end_of_text_;
    out = out.subspan(1);
    first = document->first + document->bytes + 1;
  }
}

void TextFiles::read_text(const Document& document, std::int64_t offset,
                          std::span<std::int32_t> out) const {
  std::optional<ReadOnlyFile> opened;
  if (!document.file) opened.emplace(document.path);
  const ReadOnlyFile& file = document.file ? *document.file : *opened;

  std::array<std::byte, kReadBytes> buffer;
  while (!out.empty()) {
    const auto bytes = std::span(buffer).first(std::min(out.size(), buffer.size()));
    const std::size_t got = file.read_at(offset, bytes);
    if (got < bytes.size()) throw_shrunk(document.path, document.bytes, file.size());
    std::ranges::transform(bytes, out.begin(),
                           [](std::byte byte) { return std::to_integer<std::int32_t>(byte); });
    out = out.subspan(bytes.size());
    offset += static_cast<std::int64_t>(bytes.size());
  }
}

}  // namespace ebb::text
