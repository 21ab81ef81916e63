#include "engine/checkpointing.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/weight_files.h"
#include "ebb/error.h"

namespace ebb::engine {
namespace {

std::string_view suffix_of(Plane plane) {
  switch (plane) {
    case Plane::weight: return "";
    case Plane::low: return ".low";
    case Plane::first: return ".first";
    case Plane::second: return ".second";
  }
  return "";
}

std::vector<Plane> planes_of(const ParameterStore& store, bool weights) {
  if (weights) return {Plane::weight};
  if (store.has(Plane::low)) return {Plane::low, Plane::first, Plane::second};
  return {Plane::first, Plane::second};
}

std::vector<std::int64_t> shape_of(const model::Parameter& parameter) {
  return parameter.matrix ? std::vector{parameter.rows, parameter.cols}
                          : std::vector{parameter.rows};
}

// Calls visit(parameter, plane) in the order of the file.
template <class Visit>
void for_tensors(const ParameterStore& store, bool weights, Visit visit) {
  for (int p = 0; p < static_cast<int>(store.parameters().all.size()); ++p) {
    for (const Plane plane : planes_of(store, weights)) visit(p, plane);
  }
}

// Calls visit(first, count, bytes of a staging buffer) for pieces of a tensor.
template <class Visit>
void for_pieces(std::int64_t count, Bytes element, Visit visit) {
  std::vector<std::byte> piece(static_cast<std::size_t>(ParameterStore::kPiece * element));
  for (std::int64_t first = 0; first < count; first += ParameterStore::kPiece) {
    const std::int64_t n = std::min(ParameterStore::kPiece, count - first);
    visit(first, n, std::span(piece.data(), static_cast<std::size_t>(n * element)));
  }
}

void write_file(io::FileSystem& files, checkpoint::CheckpointWriter& writer, std::string_view name,
                ParameterStore& store, bool weights) {
  std::vector<checkpoint::TensorSpec> specs;
  const auto& all = store.parameters().all;
  for_tensors(store, weights, [&](int p, Plane plane) {
    const model::Parameter& parameter = all[static_cast<std::size_t>(p)];
    specs.push_back({parameter.name + std::string(suffix_of(plane)),
                     checkpoint::stored_type(store.type_of(plane)), shape_of(parameter)});
  });
  checkpoint::SafetensorsWriter file(files, writer.path(name), std::move(specs),
                                     {{"format", "pt"}});
  for_tensors(store, weights, [&](int p, Plane plane) {
    for_pieces(all[static_cast<std::size_t>(p)].count(), size_of(store.type_of(plane)),
               [&](std::int64_t first, std::int64_t n, std::span<std::byte> bytes) {
                 store.read(plane, p, first, n, bytes.data());
                 file.write(bytes);
               });
  });
  const checkpoint::WrittenFile written = file.finish();
  writer.add_file(name, written.bytes, written.digest);
}

void read_file(io::FileSystem& files, const std::filesystem::path& path, ParameterStore& store,
               bool weights) {
  const checkpoint::SafetensorsReader file(files, path);
  const auto& all = store.parameters().all;
  for_tensors(store, weights, [&](int p, Plane plane) {
    const model::Parameter& parameter = all[static_cast<std::size_t>(p)];
    const std::string name = parameter.name + std::string(suffix_of(plane));
    const checkpoint::StoredTensor* tensor = file.find(name);
    const auto type = checkpoint::stored_type(store.type_of(plane));
    if (tensor == nullptr || tensor->type != type || tensor->shape != shape_of(parameter)) {
      throw FormatError(
          fmt::format("{}: tensor {} should be {} of shape [{}], found {}; the checkpoint is of "
                      "another model or "
                      "another --dtype",
                      path.string(), name, name_of(type), fmt::join(shape_of(parameter), ", "),
                      tensor == nullptr ? std::string("none")
                                        : fmt::format("{} of shape [{}]", name_of(tensor->type),
                                                      fmt::join(tensor->shape, ", "))));
    }
    for_pieces(parameter.count(), size_of(store.type_of(plane)),
               [&](std::int64_t first, std::int64_t n, std::span<std::byte> bytes) {
                 file.read(*tensor, first * size_of(type), bytes);
                 store.write(plane, p, first, n, bytes.data());
               });
  });
}

}  // namespace

std::filesystem::path save_checkpoint(io::FileSystem& files, const std::filesystem::path& root,
                                      ParameterStore& store, const Companions& companions,
                                      const TrainingState& state, int keep) {
  checkpoint::CheckpointWriter writer(files, root, state.step);
  write_file(files, writer, checkpoint::kWeightsName, store, true);
  write_file(files, writer, kStateName, store, false);
  writer.write_json("config.json", config_to_save(companions, store.dtype()));
  for (const Companions::Copy& copy : companions.copies) writer.copy_file(copy.name, *copy.file);
  writer.write_json(kTrainingName, to_json(state));
  const std::filesystem::path published = writer.publish();
  checkpoint::keep_last(files, root, keep);
  return published;
}

void load_checkpoint(io::FileSystem& files, const std::filesystem::path& folder,
                     ParameterStore& store) {
  read_file(files, folder / checkpoint::kWeightsName, store, true);
  read_file(files, folder / kStateName, store, false);
}

}  // namespace ebb::engine
