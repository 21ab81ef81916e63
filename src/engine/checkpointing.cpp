#include "engine/checkpointing.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "files/folder.h"
#include "files/safetensors.h"

namespace ebb::engine {
namespace {

using states::StateKind;

// Weights are called as others call them.
std::string suffix_of(Plane plane) {
  return plane == Plane::weight ? "" : fmt::format(".{}", states::name_of(plane));
}

// A plane of codes is a row a block.
files::TensorSpec spec_of(const model::Parameter& parameter, Plane plane, const StateKind& kind) {
  const states::Grain grain = states::grain_of(plane, kind);
  std::vector<std::int64_t> shape = {parameter.rows};
  if (parameter.matrix) shape.push_back(parameter.cols);
  if (grain.per > 1) shape = {grain.size_of(parameter.count()) / grain.bytes, grain.bytes};
  return {parameter.name + suffix_of(plane), files::stored_type(plane, kind), std::move(shape)};
}

using Planes = std::vector<Plane>;

void write_file(io::FileSystem& files, files::CheckpointWriter& writer, std::string_view name,
                ParameterStore& store, const Planes& planes) {
  std::vector<files::TensorSpec> specs;
  const auto& all = store.parameters().all;
  for (const model::Parameter& parameter : all) {
    for (const Plane plane : planes) specs.push_back(spec_of(parameter, plane, store.kind()));
  }
  files::SafetensorsWriter file(files, writer.path(name), std::move(specs), {{"format", "pt"}});
  for (int p = 0; p < static_cast<int>(all.size()); ++p) {
    for (const Plane plane : planes) {
      store.read_plane(plane, p, [&](std::span<const std::byte> piece) { file.write(piece); });
    }
  }
  const files::WrittenFile written = file.finish();
  writer.add_file(name, written.bytes, written.digest);
}

// A file of planes, which has them as `kind` says.
class PlaneFile {
 public:
  PlaneFile(io::FileSystem& files, const std::filesystem::path& path, const StateKind& kind)
      : path_(path), file_(files, path), kind_(kind) {}

  void read(const model::Parameter& parameter, Plane plane, std::int64_t first, std::int64_t count,
            void* to) const {
    const states::Grain grain = states::grain_of(plane, kind_);
    file_.read(find(parameter, plane), grain.size_of(first),
               {static_cast<std::byte*>(to), to_size(grain.size_of(count))});
  }

 private:
  const files::StoredTensor& find(const model::Parameter& parameter, Plane plane) const {
    const files::TensorSpec wanted = spec_of(parameter, plane, kind_);
    const files::StoredTensor* found = file_.find(wanted.name);
    if (found != nullptr && found->type == wanted.type && found->shape == wanted.shape) {
      return *found;
    }
    throw FormatError(fmt::format(
        "{}: tensor {} should be {} of shape [{}], found {}; the checkpoint is of another model or "
        "another --dtype",
        path_.string(), wanted.name, name_of(wanted.type), fmt::join(wanted.shape, ", "),
        found == nullptr ? std::string("none")
                         : fmt::format("{} of shape [{}]", name_of(found->type),
                                       fmt::join(found->shape, ", "))));
  }

  std::filesystem::path path_;
  files::SafetensorsReader file_;
  StateKind kind_;
};

// Writes the weights and what others need to load them.
void write_model(io::FileSystem& files, files::CheckpointWriter& writer, ParameterStore& store,
                 const files::SidecarFiles& sidecar_files) {
  write_file(files, writer, files::kWeightsName, store, {Plane::weight});
  writer.write_json(files::kConfigName,
                    files::config_to_save(sidecar_files, store.kind().weight_type));
  for (const files::SidecarFiles::Copy& copy : sidecar_files.copies)
    writer.copy_file(copy.name, *copy.file);
}

}  // namespace

std::filesystem::path save_checkpoint(io::FileSystem& files, const std::filesystem::path& root,
                                      ParameterStore& store,
                                      const files::SidecarFiles& sidecar_files,
                                      const files::TrainingState& state, int keep) {
  files::CheckpointWriter writer(files, root, state.step);
  write_model(files, writer, store, sidecar_files);
  write_file(files, writer, files::kStateName, store, states::state_planes(store.kind()));
  writer.write_json(files::kTrainingName, to_json(state));
  const std::filesystem::path published = writer.publish();
  files::keep_last(files, root, keep);
  return published;
}

std::filesystem::path save_weights(io::FileSystem& files, const std::filesystem::path& root,
                                   ParameterStore& store, const files::SidecarFiles& sidecar_files,
                                   std::int64_t step) {
  files::CheckpointWriter writer(files, root, step);
  write_model(files, writer, store, sidecar_files);
  return writer.publish();
}

void load_checkpoint(io::FileSystem& files, const std::filesystem::path& folder,
                     states::StateFormat stored, ParameterStore& store) {
  StateKind kind = store.kind();
  kind.format = stored;
  const PlaneFile weights(files, folder / files::kWeightsName, kind);
  const PlaneFile states(files, folder / files::kStateName, kind);
  store.load(stored, [&](Plane plane, int p, std::int64_t first, std::int64_t count, void* to) {
    const PlaneFile& file = plane == Plane::weight ? weights : states;
    file.read(store.parameters().all[p], plane, first, count, to);
  });
}

}  // namespace ebb::engine
