#include "files/weight_files.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::files {
namespace {

namespace fs = std::filesystem;

// People bring folders in other formats; the message says what theirs is and what helps.
[[noreturn]] void refuse_without_weights(io::FileSystem& files, const fs::path& folder) {
  constexpr std::string_view convert =
      "Convert it: load it with transformers and save it with "
      "save_pretrained(folder, safe_serialization=True).";
  std::string found = "no weights";
  std::string advice = "Get the folder again with all its files.";
  for (const fs::path& path : files.list(folder)) {
    const std::string name = path.filename().string();
    const std::string suffix = path.extension().string();
    if (suffix == ".safetensors" && name.starts_with("model")) {
      found = fmt::format("{} without an index", in_quotes(name));
      advice = fmt::format("Get '{}' as well, or name the file '{}' if it is the only one.",
                           kIndexName, kWeightsName);
      break;
    }
    if (suffix == ".gguf") {
      found = in_quotes(name);
      advice = "Give that file itself.";
      break;
    }
    if (suffix == ".bin" || suffix == ".pt" || suffix == ".pth" || suffix == ".h5") {
      found = in_quotes(name);
      advice = convert;
    }
  }
  throw FormatError(
      fmt::format("'{}': Ebb reads weights from '{}', or from '{}' and the files it names, and "
                  "neither is there; found {}. {}",
                  folder.string(), kWeightsName, kIndexName, found, advice));
}

}  // namespace

WeightFiles::WeightFiles(io::FileSystem& files, const fs::path& folder)
    : path_(folder / kWeightsName) {
  if (files.exists(path_)) {
    files_.emplace_back(files, path_);
    return;
  }
  path_ = folder / kIndexName;
  if (!files.exists(path_)) refuse_without_weights(files, folder);
  index_ = read_index(files, path_);
  open_shards(files, folder);
}

void WeightFiles::open_shards(io::FileSystem& files, const fs::path& folder) {
  const auto fail = [&](const std::string& what) {
    throw FormatError(fmt::format(
        "'{}': {}. The folder is incomplete or mixed from two models: get all its files again.",
        path_.string(), what));
  };
  for (const std::string& name : index_->file_names()) {
    if (!files.exists(folder / name)) {
      fail(fmt::format("it names the file {}, which is not in the folder", in_quotes(name)));
    }
    files_.emplace_back(files, folder / name);
    for (const StoredTensor& tensor : files_.back().tensors()) {
      const auto entry = index_->files.find(tensor.name);
      if (entry == index_->files.end()) {
        fail(fmt::format("the file {} holds tensor {}, which the index does not name",
                         in_quotes(name), in_quotes(tensor.name)));
      }
      if (entry->second != name) {
        fail(fmt::format("tensor {} should be in {} alone, and is also in {}",
                         in_quotes(tensor.name), in_quotes(entry->second), in_quotes(name)));
      }
    }
  }
  // The other way round: every name was found in its file.
  std::size_t found = 0;
  for (const SafetensorsReader& file : files_) found += file.tensors().size();
  if (found == index_->files.size()) return;
  for (const SafetensorsReader& file : files_) {
    const std::string name = file.path().filename().string();
    for (const auto& [tensor, in] : index_->files) {
      if (in == name && file.find(tensor) == nullptr) {
        fail(fmt::format("tensor {} should be in {}, and is not", in_quotes(tensor),
                         in_quotes(name)));
      }
    }
  }
}

}  // namespace ebb::files
