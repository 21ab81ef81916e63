#include "checkpoint/folder.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "ebb/error.h"

namespace ebb::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kOld = ".old";
constexpr Bytes kCopyBytes = 256 * kKiB;

std::string folder_name(std::int64_t step) { return fmt::format("{}{:08}", kPrefix, step); }

fs::path with_suffix(fs::path path, std::string_view suffix) { return path += suffix; }

struct FolderName {
  std::int64_t step = 0;
  std::string suffix;
};

// Nothing for names that Ebb would not have given.
std::optional<FolderName> try_parse_name(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [rest, code] = std::from_chars(begin, end, step);
  if (code != std::errc{} || step < 0) return std::nullopt;
  std::string suffix(rest, end);
  if (folder_name(step) + suffix != name) return std::nullopt;
  if (!suffix.empty() && suffix != kPartial && suffix != kOld) return std::nullopt;
  return FolderName{step, std::move(suffix)};
}

struct Found {
  std::map<std::int64_t, fs::path> published;
  std::vector<fs::path> leftovers;  // never checkpoints, or replaced ones
};

Found find_folders(io::FileSystem& files, const fs::path& root) {
  Found found;
  if (!files.is_directory(root)) return found;
  for (const fs::path& entry : files.list(root)) {
    const std::optional<FolderName> name = try_parse_name(entry);
    if (!name || !files.is_directory(entry)) continue;
    if (name->suffix == kPartial) {
      found.leftovers.push_back(entry);
    } else if (files.exists(entry / kManifestName)) {
      // Sorted by name, so the folder itself comes before its ".old" and wins.
      if (!found.published.emplace(name->step, entry).second) found.leftovers.push_back(entry);
    }
  }
  return found;
}

// A folder that may count as published stops doing so in one rename, before any of it is removed.
void discard(io::FileSystem& files, const fs::path& folder) {
  const std::optional<FolderName> name = try_parse_name(folder);
  const fs::path partial = with_suffix(folder.parent_path() / folder_name(name->step), kPartial);
  if (folder != partial) {
    files.remove_all(partial);
    files.rename(folder, partial);
    files.sync_directory(folder.parent_path());
  }
  files.remove_all(partial);
}

std::string advice_to_resume(io::FileSystem& files, const fs::path& folder) {
  const std::optional<FolderName> name = try_parse_name(folder);
  const Found found = find_folders(files, io::parent_of(folder));
  for (auto it = found.published.rbegin(); it != found.published.rend(); ++it) {
    if (name && it->first < name->step) {
      return fmt::format(
          "Resume from an older checkpoint: move '{}' away and use --resume again, which takes "
          "'{}'.",
          folder.string(), it->second.string());
    }
  }
  return fmt::format(
      "There is no older checkpoint beside it to resume from: use a copy of '{}', "
      "or start again in another --out.",
      folder.string());
}

std::string digest_of(io::File& file, Bytes bytes) {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min<Bytes>(bytes, 4 * kMiB)));
  Digest digest;
  for (Bytes at = 0; at < bytes; at += static_cast<Bytes>(piece.size())) {
    piece.resize(static_cast<std::size_t>(std::min<Bytes>(piece.size(), bytes - at)));
    file.read(at, piece);
    digest.add(piece);
  }
  return digest.hex();
}

void write_file(io::FileSystem& files, const fs::path& path, std::string_view text) {
  const std::unique_ptr<io::File> file = files.create(path);
  file->write(0, std::as_bytes(std::span(text)));
  file->sync();
}

}  // namespace

CheckpointWriter::CheckpointWriter(io::FileSystem& files, fs::path root, std::int64_t step)
    : files_(files), root_(std::move(root)) {
  if (step < 0) throw ConfigError(fmt::format("a checkpoint's step is from 0, found {}", step));
  final_ = root_ / folder_name(step);
  partial_ = with_suffix(final_, kPartial);
  old_ = with_suffix(final_, kOld);
  manifest_.step = step;
  files_.make_directories(root_);
  // An ".old" beside the folder itself was replaced already; only a crash kept it.
  if (files_.exists(final_ / kManifestName) && files_.exists(old_)) discard(files_, old_);
  files_.remove_all(partial_);
  files_.make_directories(partial_);
}

CheckpointWriter::~CheckpointWriter() {
  try {
    files_.remove_all(partial_);
  } catch (...) {
    // The error that kept the save from being published is the one to report; the next save of
    // this step, or keep_last, removes the rest.
  }
}

fs::path CheckpointWriter::path(std::string_view name) const {
  if (!is_plain_name(name)) {
    throw FormatError(fmt::format("a checkpoint's files need plain names, found '{}'", name));
  }
  return partial_ / name;
}

void CheckpointWriter::add_file(std::string_view name, Bytes bytes, std::string digest) {
  path(name);
  for (const ManifestFile& file : manifest_.files) {
    if (file.name == name) throw FormatError(fmt::format("'{}' was added twice", name));
  }
  manifest_.files.push_back({std::string(name), bytes, std::move(digest)});
}

void CheckpointWriter::write_json(std::string_view name, const nlohmann::ordered_json& value) {
  std::string text;
  try {
    text = value.dump(2) + "\n";
  } catch (const nlohmann::json::exception& error) {
    throw FormatError(
        fmt::format("cannot write '{}': its texts must be UTF-8: {}", name, error.what()));
  }
  const auto bytes = std::as_bytes(std::span(text));
  write_file(files_, path(name), text);
  Digest digest;
  digest.add(bytes);
  add_file(name, static_cast<Bytes>(bytes.size()), digest.hex());
}

void CheckpointWriter::copy_file(std::string_view name, io::File& from) {
  const std::unique_ptr<io::File> to = files_.create(path(name));
  const Bytes bytes = from.size();
  std::vector<std::byte> piece;
  Digest digest;
  for (Bytes at = 0; at < bytes; at += static_cast<Bytes>(piece.size())) {
    piece.resize(static_cast<std::size_t>(std::min(bytes - at, kCopyBytes)));
    from.read(at, piece);
    to->write(at, piece);
    digest.add(piece);
  }
  to->sync();
  add_file(name, bytes, digest.hex());
}

fs::path CheckpointWriter::publish() {
  for (const ManifestFile& entry : manifest_.files) {
    const std::unique_ptr<io::File> file = files_.open(path(entry.name));
    if (file->size() != entry.bytes) {
      throw FormatError(fmt::format("cannot publish '{}': expected {} bytes, found {}",
                                    file->path().string(), entry.bytes, file->size()));
    }
    file->sync();
  }
  write_file(files_, partial_ / kManifestName, format_manifest(manifest_));
  files_.sync_directory(partial_);

  if (files_.exists(final_)) {
    files_.rename(final_, old_);
    // The next rename must not become durable before this one.
    files_.sync_directory(root_);
  }
  files_.rename(partial_, final_);
  files_.sync_directory(root_);
  if (files_.exists(old_)) discard(files_, old_);
  return final_;
}

std::optional<fs::path> latest_checkpoint(io::FileSystem& files, const fs::path& root) {
  const Found found = find_folders(files, root);
  if (found.published.empty()) return std::nullopt;
  return found.published.rbegin()->second;
}

std::int64_t count_checkpoints(io::FileSystem& files, const fs::path& root) {
  return static_cast<std::int64_t>(find_folders(files, root).published.size());
}

void keep_last(io::FileSystem& files, const fs::path& root, int count) {
  if (count < 1) {
    throw ConfigError(fmt::format("expected to keep at least 1 checkpoint, found {}", count));
  }
  const Found found = find_folders(files, root);
  // First: once a folder is gone, its ".old" would count again.
  for (const fs::path& leftover : found.leftovers) discard(files, leftover);
  auto excess = static_cast<std::int64_t>(found.published.size()) - count;
  for (const auto& [step, folder] : found.published) {
    if (excess-- <= 0) break;
    discard(files, folder);
  }
}

void verify(io::FileSystem& files, const fs::path& given, const VerifyOptions& options) {
  const fs::path folder = given.has_filename() ? given : given.parent_path();
  const auto fail = [&](const fs::path& path, const std::string& expected,
                        const std::string& found) {
    throw FormatError(
        fmt::format("'{}' is damaged: expected {}, found {}. {}", path.string(), expected, found,
                    options.advice.empty() ? advice_to_resume(files, folder) : options.advice));
  };
  const fs::path manifest_path = folder / kManifestName;
  if (!files.exists(manifest_path)) fail(manifest_path, "a manifest", "none");
  const Manifest manifest = read_manifest(files, folder);
  const std::optional<FolderName> name = try_parse_name(folder);
  if (name && name->step != manifest.step) {
    fail(manifest_path, fmt::format("step {}", name->step), fmt::format("step {}", manifest.step));
  }
  for (const ManifestFile& entry : manifest.files) {
    if (std::find(options.skip.begin(), options.skip.end(), entry.name) != options.skip.end()) {
      continue;
    }
    const fs::path path = folder / entry.name;
    if (!files.exists(path)) fail(path, fmt::format("a file of {} bytes", entry.bytes), "none");
    const std::unique_ptr<io::File> file = files.open(path);
    const Bytes bytes = file->size();
    if (bytes != entry.bytes) {
      fail(path, fmt::format("{} bytes", entry.bytes), fmt::format("{}", bytes));
    }
    const std::string digest = digest_of(*file, bytes);
    if (digest != entry.digest) fail(path, "the XXH3 digest " + entry.digest, digest);
  }
}

}  // namespace ebb::checkpoint
