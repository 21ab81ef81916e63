#include "text/data/data_set.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/rng.h"
#include "ebb/error.h"
#include "text/data/token_file.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kTextCheckBytes = 8 * kKiB;
constexpr Bytes kBeginningBytes = 64 * kKiB;

// Most data sets are a few large files, which stay open; a folder of many small ones must not use
// up the process's descriptors (1024 by default), so the rest is opened for each read.
constexpr std::size_t kOpenFiles = 64;

constexpr std::int64_t kMostItems = std::int64_t{1} << 60;

std::uint64_t key_of(std::string_view name) {
  Digest digest;
  add_sized(digest, name);
  const std::string hex = digest.hex();
  std::uint64_t key = 0;
  std::from_chars(hex.data(), hex.data() + 16, key, 16);
  return key;
}

std::string list(const std::vector<fs::path>& paths) {
  std::string text;
  for (const fs::path& path : paths) {
    text += fmt::format("{}'{}'", text.empty() ? "" : ", ", path.string());
  }
  return text;
}

[[noreturn]] void throw_no_data(const std::vector<fs::path>& paths,
                                const std::vector<SkippedFile>& skipped) {
  constexpr auto kRemedy = "give a file that is not empty, or a folder that holds one";
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

DataSet::DataSet(io::FileSystem& files, const std::vector<fs::path>& files_or_folders,
                 Encoding encoding, const DataOptions& options)
    : encoding_(std::move(encoding)), skip_bad_(options.skip_bad) {
  DocumentPaths paths = find_documents(files, files_or_folders, options.not_data);
  skipped_ = std::move(paths.skipped);

  for (const DocumentPath& found : paths.found) {
    SourceFile source(files, found.path);
    const Bytes bytes = source.size();
    std::unique_ptr<ItemFile> file = open(std::move(source), found.given, options);
    if (!file) continue;
    // Sparse files may claim any size.
    if (file->items() > kMostItems - items_) {
      throw ConfigError(fmt::format(
          "with '{}', which has {} bytes, the data is more than can be counted; leave it out",
          found.path.string(), bytes));
    }
    if (files_.size() >= kOpenFiles) file->close();
    const std::int64_t first = items_;
    items_ += file->items();
    most_tokens_ += std::min(file->most_tokens(), ItemFile::kUncountedTokens - most_tokens_);
    files_.push_back({std::move(file), found.name, first, key_of(found.name)});
  }
  if (files_.empty()) throw_no_data(files_or_folders, skipped_);
}

std::unique_ptr<ItemFile> DataSet::open(SourceFile file, bool given, const DataOptions& options) {
  const fs::path path = file.path();
  if (file.size() == 0) {
    skipped_.push_back({path, "it is empty"});
    return nullptr;
  }
  const std::string beginning = file.read(0, std::min(file.size(), kTextCheckBytes));
  if (is_token_file(beginning)) {
    return open_token_file(std::move(file), encoding_, options.window_tokens);
  }
  refuse_wide_text(beginning, file);
  if (path.extension() == ".jsonl") {
    const Bytes total = file.size();
    IndexProgress progress;
    if (options.progress) {
      progress = [&options, &path, total](Bytes done) { options.progress(path, done, total); };
    }
    if (!options.skip_bad) return open_jsonl(std::move(file), progress);
    try {
      return open_jsonl(std::move(file), progress, BadLines::keep);
    } catch (const FormatError& error) {
      skipped_.push_back({path, fmt::format("none of its lines can be used: {}", error.what())});
      return nullptr;
    }
  }
  if (beginning.find('\0') != std::string::npos) {
    if (given) {
      throw FormatError(fmt::format(
          "{} has NUL bytes and so is not text, and it does not begin like a token file of Ebb, "
          "llm.c or LLMQ; give text, JSONL or a token file (ebb tokenize makes them)",
          file.name()));
    }
    skipped_.push_back({path, "it has NUL bytes and so is not text"});
    return nullptr;
  }
  if (given && path.extension() == ".json") {
    throw FormatError(
        fmt::format("{} is JSON, which is not text to learn from: write one object a line, such as "
                    "{{\"text\": \"...\"}}, into a file whose name ends in .jsonl",
                    file.name()));
  }
  // For bytes any text will do; a tokenizer would learn the sign that stands for broken characters.
  Digest digest;
  const bool read = encoding_.tokenizer->name() != "bytes";
  if (read) {
    if (const auto at = find_invalid_utf8(file, digest)) {
      if (given && !options.skip_bad) {
        throw FormatError(fmt::format(
            "{}: byte {} is not UTF-8, so some of the text would be lost; convert the "
            "file (iconv -f LATIN1 -t UTF-8, or what it was written in), or remove what "
            "is broken",
            file.name(), *at));
      }
      skipped_.push_back({path, fmt::format("its byte {} is not UTF-8", *at)});
      return nullptr;
    }
  }
  std::unique_ptr<ItemFile> passages = open_passages(std::move(file), options.passage_bytes);
  if (read) passages->set_digest(digest.hex());
  return passages;
}

const DataSet::Member& DataSet::member_of(std::int64_t item) const {
  return *(std::ranges::upper_bound(files_, item, {}, &Member::first) - 1);
}

Item DataSet::read(std::int64_t item) const {
  const Member& member = member_of(item);
  try {
    return member.file->read(item - member.first, encoding_);
  } catch (const FormatError& error) {
    if (!skip_bad_) throw;
    return {.tokens = {}, .problem = error.what()};
  }
}

std::vector<FileRecord> DataSet::records() const {
  std::vector<FileRecord> records;
  records.reserve(files_.size());
  for (const Member& member : files_) {
    records.push_back({member.name, member.file->file().size(), member.file->digest()});
  }
  return records;
}

std::string DataSet::beginnings_digest() const {
  Digest digest;
  add_sized(digest, encoding_.tokenizer->digest());
  for (const Member& member : files_) {
    const SourceFile& file = member.file->file();
    const Bytes bytes = file.size();
    add_sized(digest, member.name);
    digest.add(std::as_bytes(std::span(&bytes, 1)));
    add_sized(digest, file.read(0, std::min(bytes, kBeginningBytes)));
  }
  return digest.hex();
}

std::uint64_t DataSet::identity(std::int64_t item) const {
  const Member& member = member_of(item);
  return mix_bits(member.key ^ mix_bits(static_cast<std::uint64_t>(item - member.first)));
}

const ItemFile* DataSet::find(Form form) const {
  for (const Member& member : files_) {
    if (member.file->form() == form) return member.file.get();
  }
  return nullptr;
}

Bytes DataSet::largest_item() const {
  Bytes largest = 0;
  for (const Member& member : files_) largest = std::max(largest, member.file->largest_item());
  return largest;
}

Bytes DataSet::memory_bytes() const {
  auto bytes = static_cast<Bytes>(files_.capacity() * sizeof(Member));
  for (const Member& member : files_) {
    bytes += member.file->index_bytes() + static_cast<Bytes>(member.name.capacity());
  }
  return bytes;
}

}  // namespace ebb::text
