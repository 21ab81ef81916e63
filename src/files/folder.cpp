#include "files/folder.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/digest.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/step_folders.h"

namespace ebb::files {
namespace {

namespace fs = std::filesystem;

constexpr Bytes kCopyBytes = 256 * kKiB;

// The checkpoints of a run, sorted by their steps.
std::vector<fs::path> our_checkpoints(io::FileSystem& files, const fs::path& root) {
  std::vector<fs::path> ours;
  for (const auto& [step, folder] : find_step_folders(files, root).published) {
    if (is_ours(files, folder)) ours.push_back(folder);
  }
  return ours;
}

std::string advice_to_resume(io::FileSystem& files, const fs::path& folder) {
  const std::optional<StepFolderName> name = try_parse_step_folder(folder);
  const StepFolders found = find_step_folders(files, io::parent_of(folder));
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
  std::vector<std::byte> piece(to_size(std::min<Bytes>(bytes, 4 * kMiB)));
  Digest digest;
  for (Bytes at = 0; at < bytes; at += static_cast<Bytes>(piece.size())) {
    piece.resize(to_size(std::min(std::ssize(piece), bytes - at)));
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
  const std::string name = step_folder_name(step);
  final_ = root_ / name;
  partial_ = root_ / (name + std::string(kPartial));
  old_ = root_ / (name + std::string(kOld));
  manifest_.step = step;
  for (const fs::path& folder : {final_, partial_, old_}) refuse_foreign(files_, folder);
  files_.make_directories(root_);
  // An ".old" beside the folder itself was replaced already; only a crash kept it.
  if (files_.exists(final_)) discard(files_, old_);
  discard(files_, partial_);
  files_.make_directories(partial_);
  files_.create(partial_ / kDraftName);
  // A crash must not leave other files without the one that says whose they are.
  files_.sync_directory(partial_);
}

CheckpointWriter::~CheckpointWriter() {
  try {
    discard(files_, partial_);
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
    piece.resize(to_size(std::min(bytes - at, kCopyBytes)));
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
  write_file(files_, partial_ / kDraftName, format_manifest(manifest_));
  files_.rename(partial_ / kDraftName, partial_ / kManifestName);
  files_.sync_directory(partial_);

  refuse_foreign(files_, final_);
  // In whichever order the two become durable, the name is that of a whole checkpoint, or the old
  // one has its other name.
  if (files_.exists(final_)) files_.rename(final_, old_);
  files_.rename(partial_, final_);
  files_.sync_directory(root_);
  discard(files_, old_);
  return final_;
}

std::optional<fs::path> latest_checkpoint(io::FileSystem& files, const fs::path& root) {
  const StepFolders found = find_step_folders(files, root);
  if (found.published.empty()) return std::nullopt;
  return found.published.rbegin()->second;
}

std::int64_t count_checkpoints(io::FileSystem& files, const fs::path& root) {
  return static_cast<std::int64_t>(our_checkpoints(files, root).size());
}

void keep_last(io::FileSystem& files, const fs::path& root, int count) {
  if (count < 1) {
    throw ConfigError(fmt::format("expected to keep at least 1 checkpoint, found {}", count));
  }
  const StepFolders found = find_step_folders(files, root);
  // First: once a folder is gone, its ".old" would count again.
  for (const fs::path& leftover : found.leftovers) {
    if (is_ours(files, leftover)) discard(files, leftover);
  }
  const std::vector<fs::path> ours = our_checkpoints(files, root);
  for (auto excess = static_cast<std::int64_t>(ours.size()) - count;
       const fs::path& folder : ours) {
    if (excess-- <= 0) break;
    discard(files, folder);
  }
}

void check_names_free(io::FileSystem& files, const fs::path& root, std::int64_t after) {
  if (!files.is_directory(root)) return;
  for (const fs::path& entry : files.list(root)) {
    const std::optional<StepFolderName> name = try_parse_step_folder(entry);
    if (name && name->step > after) refuse_foreign(files, entry);
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
  const std::optional<StepFolderName> name = try_parse_step_folder(folder);
  if (name && name->step != manifest.step) {
    fail(manifest_path, fmt::format("step {}", name->step), fmt::format("step {}", manifest.step));
  }
  for (const std::string_view required : options.required) {
    const bool listed =
        std::any_of(manifest.files.begin(), manifest.files.end(),
                    [&](const ManifestFile& entry) { return entry.name == required; });
    if (!listed) fail(manifest_path, fmt::format("an entry for {}", required), "none");
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

}  // namespace ebb::files
