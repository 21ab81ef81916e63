// The weights of a model's folder: model.safetensors, or the files that
// model.safetensors.index.json names.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>

#include "files/safetensors.h"
#include "files/safetensors_index.h"

namespace ebb::files {

inline constexpr std::string_view kWeightsName = "model.safetensors";

// Open files whose headers were checked. With an index, on return from the constructor every file
// it names is there and holds exactly the tensors that the index says, so no name occurs twice.
// Anything else is a FormatError that names the index, the tensor or file, and what to do. Memory
// is bounded by the headers and the index. Reads may come from several threads.
class WeightFiles {
 public:
  // Where both are there, the single file counts, as for others who read such folders.
  WeightFiles(io::FileSystem& files, const std::filesystem::path& folder);

  const std::deque<SafetensorsReader>& files() const { return files_; }
  // None for a single file.
  const std::optional<SafetensorsIndex>& index() const { return index_; }
  // The index where there is one, else the file: what an error about all of them names.
  const std::filesystem::path& path() const { return path_; }

 private:
  void open_shards(io::FileSystem& files, const std::filesystem::path& folder);

  std::filesystem::path path_;
  std::deque<SafetensorsReader> files_;
  std::optional<SafetensorsIndex> index_;
};

}  // namespace ebb::files
