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
#include "io/unpack/unpack.h"
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

// What a file is by its first bytes that cannot be read as it is; empty for what may be.
std::string packed_as(std::string_view beginning) {
  switch (io::compression_of_bytes(beginning)) {
    case io::Compression::gzip: return "is compressed by gzip: give it a name that ends in .gz";
    case io::Compression::zstd: return "is compressed by zstd: give it a name that ends in .zst";
    case io::Compression::none: break;
  }
  if (beginning.starts_with("PAR1")) {
    return "is Parquet, which Ebb does not read: write it as JSONL, for example with "
           "python3 -c \"import pandas; pandas.read_parquet('FILE').to_json('FILE.jsonl', "
           "orient='records', lines=True)\"";
  }
  constexpr std::pair<std::string_view, std::string_view> others[] = {{"BZh", "bzip2"},
                                                                      {{"\xfd"
                                                                        "7zXZ",
                                                                        5},
                                                                       "xz"},
                                                                      {"PK\x03\x04", "zip"}};
  for (const auto& [magic, name] : others) {
    if (beginning.starts_with(magic)) {
      return fmt::format(
          "is compressed by {}, which Ebb does not read: unpack it, or compress it "
          "by gzip or zstd",
          name);
    }
  }
  return {};
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
    : encoding_(std::move(encoding)),
      skip_bad_(options.skip_bad),
      unpacked_(files, options.unpack_in) {
  DocumentPaths paths = find_documents(files, files_or_folders, options.not_data);
  skipped_ = std::move(paths.skipped);

  for (const DocumentPath& found : paths.found) {
    std::unique_ptr<ItemFile> file = open(files, found, options);
    if (!file) continue;
    // Sparse files may claim any size.
    if (file->items() > kMostItems - items_) {
      throw ConfigError(fmt::format(
          "with '{}', which has {} bytes, the data is more than can be counted; leave it out",
          found.path.string(), file->file().size()));
    }
    if (files_.size() >= kOpenFiles) file->close();
    const std::int64_t first = items_;
    items_ += file->items();
    most_tokens_ += std::min(file->most_tokens(), ItemFile::kUncountedTokens - most_tokens_);
    files_.push_back({std::move(file), found.name, first, key_of(found.name)});
  }
  if (files_.empty()) throw_no_data(files_or_folders, skipped_);
}

std::unique_ptr<ItemFile> DataSet::open(io::FileSystem& files, const DocumentPath& found,
                                        const DataOptions& options) {
  if (io::compression_of(found.path) == io::Compression::none) {
    return open(SourceFile(files, found.path), found.given, options);
  }
  if (files.open(found.path)->size() == 0) {
    skipped_.push_back({found.path, "it is empty"});
    return nullptr;
  }
  std::function<void(Bytes, Bytes)> progress;
  if (options.progress) {
    progress = [&](Bytes done, Bytes total) { options.progress(found.path, done, total); };
  }
  UnpackedText text;
  try {
    text = unpacked_.add(found.path, progress);
  } catch (const FormatError& error) {
    if (!skip_bad_) throw;
    skipped_.push_back({found.path, error.what(), true});
    return nullptr;
  }
  const std::string digest = text.packed_digest;
  std::unique_ptr<ItemFile> file =
      open(SourceFile(found.path, std::move(text)), found.given, options);
  // Of what lies on the disk: how it was unpacked is nobody's concern.
  if (file) file->set_digest(digest);
  return file;
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
  const fs::path kind = io::unpacked_name(path).extension();
  const bool rows = kind == ".csv" || kind == ".tsv";
  if (rows || kind == ".jsonl" || kind == ".ndjson") {
    return open_examples(std::move(file), rows, options);
  }
  if (beginning.find('\0') != std::string::npos || !packed_as(beginning).empty()) {
    const std::string what = packed_as(beginning);
    if (given) {
      throw FormatError(fmt::format(
          "{} {}; give text, JSONL, CSV or a token file (ebb tokenize makes them)", file.name(),
          what.empty() ? "has NUL bytes and so is not text, and it does not begin like a token "
                         "file of Ebb, llm.c or LLMQ"
                       : what));
    }
    skipped_.push_back({path, what.empty() ? "it has NUL bytes and so is not text" : "it " + what});
    return nullptr;
  }
  if (given && kind == ".json") {
    throw FormatError(
        fmt::format("{} is JSON, which is not text to learn from: write one object a line, such as "
                    "{{\"text\": \"...\"}}, into a file whose name ends in .jsonl",
                    file.name()));
  }
  return open_text(std::move(file), given, options);
}

std::unique_ptr<ItemFile> DataSet::open_examples(SourceFile file, bool rows,
                                                 const DataOptions& options) {
  const fs::path path = file.path();
  ExampleOptions how{.progress = {}, .bad = BadLines::refuse, .columns = options.columns};
  if (options.skip_bad) how.bad = options.keep_bad_files ? BadLines::keep_all : BadLines::keep;
  if (options.progress) {
    how.progress = [&options, path, total = file.size()](Bytes done) {
      options.progress(path, done, total);
    };
  }
  try {
    return rows ? open_csv(std::move(file), how) : open_jsonl(std::move(file), how);
  } catch (const FormatError& error) {
    if (!options.skip_bad) throw;
    skipped_.push_back(
        {path, fmt::format("none of its lines can be used: {}", error.what()), true});
    return nullptr;
  }
}

std::unique_ptr<ItemFile> DataSet::open_text(SourceFile file, bool given,
                                             const DataOptions& options) {
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
      skipped_.push_back({file.path(), fmt::format("its byte {} is not UTF-8", *at), true});
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
    records.push_back({member.name, member.file->file().stored_bytes(), member.file->digest()});
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
