// Safetensors files made for a test.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "files/safetensors.h"
#include "io/file_system.h"

namespace ebb::files {

struct MadeTensor {
  TensorSpec spec;
  std::vector<std::byte> bytes;
};

inline void write_safetensors(io::FileSystem& files, const std::filesystem::path& path,
                              const std::vector<MadeTensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const MadeTensor& tensor : tensors) specs.push_back(tensor.spec);
  SafetensorsWriter writer(files, path, std::move(specs), {{"format", "pt"}});
  for (const MadeTensor& tensor : tensors) writer.write(tensor.bytes);
  writer.finish();
}

inline void write_text(io::FileSystem& files, const std::filesystem::path& path,
                       const std::string& text) {
  const auto file = files.create(path);
  file->write(0, std::as_bytes(std::span(text)));
}

// A vector of `count` bytes.
inline MadeTensor bytes_tensor(const std::string& name, std::int64_t count = 4) {
  return {{name, StoredType::u8, {count}}, std::vector<std::byte>(static_cast<std::size_t>(count))};
}

}  // namespace ebb::files
