// The checkpoints of a run: folders under one root, published atomically.
//
//   step-00000020/          published: complete, synced, with a manifest
//   step-00000020.partial/  being written, being removed, or left by a crash: never a checkpoint;
//                           an "ebb-manifest.partial" or a manifest in it tells that it is Ebb's
//   step-00000020.old/      the one that is being replaced by another of the same step: it is the
//                           checkpoint as long as step-00000020 does not exist
//
// Folders of such names that are not Ebb's (step_folders.h: is_ours) are never renamed or removed.
//
// One process at a time may write under a root. Others may find and read beside it; the folder they
// found can be gone by the time they open it, which is an IoError.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "files/manifest.h"
#include "io/file_system.h"

namespace ebb::files {

// One save. Write files at path(name), tell their sizes and digests with add_file, then publish.
// Destroyed without it, the partial folder is removed as far as the disk allows, so that a save
// that failed gives its space back. Not for use by several threads.
class CheckpointWriter {
 public:
  // Makes the root, and removes what an earlier save of this step left behind. Throws IoError
  // where a folder that is not Ebb's has a name that the save needs.
  CheckpointWriter(io::FileSystem& files, std::filesystem::path root, std::int64_t step);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Where to write the file; the name must be plain (no folders).
  std::filesystem::path path(std::string_view name) const;

  void add_file(std::string_view name, Bytes bytes, std::string digest);

  // Writes the file, and adds it.
  void write_json(std::string_view name, const nlohmann::ordered_json& value);

  // Copies the file, in pieces, and adds it.
  void copy_file(std::string_view name, io::File& from);

  // Checks that the files are there with the sizes that were told, writes the manifest, syncs all
  // of it, and gives the folder its final name, which is returned. At any crash in between,
  // latest_checkpoint finds what it would have found before, or this one. On an error the last
  // checkpoint is still there, too.
  std::filesystem::path publish();

 private:
  io::FileSystem& files_;
  std::filesystem::path root_;
  std::filesystem::path final_;
  std::filesystem::path partial_;
  std::filesystem::path old_;
  Manifest manifest_;
};

// The published checkpoint of the highest step; nothing where there is none, or no root. Changes
// nothing on disk. The folder's name ends in ".old" after a crash while it was being replaced.
std::optional<std::filesystem::path> latest_checkpoint(io::FileSystem& files,
                                                       const std::filesystem::path& root);

// Published ones that are Ebb's.
std::int64_t count_checkpoints(io::FileSystem& files, const std::filesystem::path& root);

// Removes all but the `count` checkpoints of the highest steps, and every leftover of a crash. A
// crash in the middle leaves no half folder that looks published. Not while a save is under way.
// Folders that are not Ebb's, damaged manifests among them, neither go nor count.
void keep_last(io::FileSystem& files, const std::filesystem::path& root, int count);

// Throws IoError where a folder that is not Ebb's has the name of a checkpoint of a step past
// `after`: better before the steps that a save of it would lose.
void check_names_free(io::FileSystem& files, const std::filesystem::path& root, std::int64_t after);

struct VerifyOptions {
  std::vector<std::string_view> required;  // names that the manifest must have
  std::vector<std::string_view> skip;      // names of files that are not looked at
  std::string advice;  // told with damage; empty: which checkpoint to resume from instead
};

// Reads every file of a checkpoint and compares sizes and digests with its manifest, and the
// manifest with its own digest: those of version 1 have none, and what was cut out of one shows
// only in what is required. Throws FormatError that names the file, what was expected and found,
// and what to do.
void verify(io::FileSystem& files, const std::filesystem::path& folder,
            const VerifyOptions& options = {});

}  // namespace ebb::files
