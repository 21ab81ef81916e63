// Model folders made for a test: a golden model's weights, spread over files and types.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "engine/small_runs.h"
#include "files/made_files.h"
#include "files/safetensors_index.h"
#include "files/weight_files.h"
#include "io/posix_file_system.h"
#include "paths.h"

namespace ebb::engine {

struct NamedValues {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};
using Weights = std::map<std::string, NamedValues>;

// Of a folder of any kind, read whole.
inline Weights read_weights(const std::filesystem::path& folder) {
  io::PosixFileSystem files;
  const files::WeightFiles weights(files, folder);
  Weights found;
  for (const files::SafetensorsReader& file : weights.files()) {
    for (const files::StoredTensor& tensor : file.tensors()) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.bytes));
      file.read(tensor, 0, bytes);
      NamedValues& values = found[tensor.name];
      values.shape = tensor.shape;
      values.values.resize(bytes.size() / static_cast<std::size_t>(size_of(tensor.type)));
      files::widen(tensor.type, bytes, values.values);
    }
  }
  return found;
}

// Cut off, not rounded; finite values of ordinary size.
inline std::uint16_t half_bits(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::fabs(value);
  if (size < 0x1p-14f) return static_cast<std::uint16_t>(sign | static_cast<int>(size * 0x1p24f));
  std::uint32_t bits = 0;
  std::memcpy(&bits, &size, sizeof bits);
  return static_cast<std::uint16_t>(sign | ((bits >> 13) - ((127 - 15) << 10)));
}

inline std::vector<std::byte> store_as(files::StoredType type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(size_of(type)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == files::StoredType::f32) {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    } else {
      const std::uint16_t bits =
          type == files::StoredType::f16 ? half_bits(values[i]) : to_bf16(values[i]).bits;
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
  }
  return bytes;
}

inline files::MadeTensor made(const std::string& name, const NamedValues& values,
                              files::StoredType type) {
  return {{name, type, values.shape}, store_as(type, values.values)};
}

// Tensor after tensor into `shards` files, with an index; types are taken in turn.
inline void write_sharded(const std::filesystem::path& folder, const Weights& weights,
                          const std::vector<files::StoredType>& types, int shards) {
  io::PosixFileSystem files;
  files.make_directories(folder);
  std::vector<std::vector<files::MadeTensor>> contents(static_cast<std::size_t>(shards));
  Json map = Json::object();
  std::size_t next = 0;
  for (const auto& [name, values] : weights) {
    const std::size_t shard = next % contents.size();
    contents[shard].push_back(made(name, values, types[next % types.size()]));
    map[name] = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
    ++next;
  }
  for (std::size_t i = 0; i < contents.size(); ++i) {
    files::write_safetensors(
        files, folder / fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards),
        contents[i]);
  }
  files::write_text(files, folder / files::kIndexName,
                    Json{{"metadata", {{"total_size", 1}}}, {"weight_map", map}}.dump());
}

}  // namespace ebb::engine
