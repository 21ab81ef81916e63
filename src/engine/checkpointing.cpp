#include "engine/checkpointing.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"
#include "ebb/error.h"
#include "optim/convert.h"

namespace ebb::engine {
namespace {

using checkpoint::StoredType;
using optim::StateFormat;
using optim::StateKind;

// Weights are called as others call them.
std::string suffix_of(Plane plane) {
  return plane == Plane::weight ? "" : fmt::format(".{}", optim::name_of(plane));
}

StoredType type_of(Plane plane, const StateKind& kind) {
  if (plane == Plane::weight) return checkpoint::stored_type(kind.weight_type);
  if (plane == Plane::low) return StoredType::i16;
  if (plane == Plane::scales) return StoredType::u8;
  switch (kind.format) {
    case StateFormat::exact: return StoredType::f32;
    case StateFormat::bf16: return StoredType::bf16;
    case StateFormat::int8: break;
  }
  return StoredType::u8;
}

// A plane of codes is a row a block.
checkpoint::TensorSpec spec_of(const model::Parameter& parameter, Plane plane,
                               const StateKind& kind) {
  const optim::Grain grain = optim::grain_of(plane, kind);
  std::vector<std::int64_t> shape = {parameter.rows};
  if (parameter.matrix) shape.push_back(parameter.cols);
  if (grain.per > 1) shape = {grain.size_of(parameter.count()) / grain.bytes, grain.bytes};
  return {parameter.name + suffix_of(plane), type_of(plane, kind), std::move(shape)};
}

using Planes = std::vector<Plane>;

void write_file(io::FileSystem& files, checkpoint::CheckpointWriter& writer, std::string_view name,
                ParameterStore& store, const Planes& planes) {
  std::vector<checkpoint::TensorSpec> specs;
  const auto& all = store.parameters().all;
  for (const model::Parameter& parameter : all) {
    for (const Plane plane : planes) specs.push_back(spec_of(parameter, plane, store.kind()));
  }
  checkpoint::SafetensorsWriter file(files, writer.path(name), std::move(specs),
                                     {{"format", "pt"}});
  for (int p = 0; p < static_cast<int>(all.size()); ++p) {
    for (const Plane plane : planes) {
      const optim::Grain grain = optim::grain_of(plane, store.kind());
      for_pieces(all[static_cast<std::size_t>(p)].count(), [&](std::int64_t first, std::int64_t n) {
        store.read(plane, p, first, n, store.staging());
        file.write({store.staging(), static_cast<std::size_t>(grain.size_of(n))});
      });
    }
  }
  const checkpoint::WrittenFile written = file.finish();
  writer.add_file(name, written.bytes, written.digest);
}

// A file of planes, which has them as `kind` says.
class PlaneFile {
 public:
  PlaneFile(io::FileSystem& files, const std::filesystem::path& path, const StateKind& kind)
      : path_(path), file_(files, path), kind_(kind) {}

  const StateKind& kind() const { return kind_; }

  void read(const model::Parameter& parameter, Plane plane, std::int64_t first, std::int64_t count,
            void* to) const {
    const optim::Grain grain = optim::grain_of(plane, kind_);
    file_.read(find(parameter, plane), grain.size_of(first),
               {static_cast<std::byte*>(to), static_cast<std::size_t>(grain.size_of(count))});
  }

 private:
  const checkpoint::StoredTensor& find(const model::Parameter& parameter, Plane plane) const {
    const checkpoint::TensorSpec wanted = spec_of(parameter, plane, kind_);
    const checkpoint::StoredTensor* found = file_.find(wanted.name);
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
  checkpoint::SafetensorsReader file_;
  StateKind kind_;
};

void load_planes(const PlaneFile& file, ParameterStore& store, const Planes& planes) {
  const auto& all = store.parameters().all;
  for (int p = 0; p < static_cast<int>(all.size()); ++p) {
    const model::Parameter& parameter = all[static_cast<std::size_t>(p)];
    for (const Plane plane : planes) {
      for_pieces(parameter.count(), [&](std::int64_t first, std::int64_t n) {
        file.read(parameter, plane, first, n, store.staging());
        store.write(plane, p, first, n, store.staging());
      });
    }
  }
}

// A run of states in a piece of memory of their own.
struct Piece {
  Piece(const StateKind& kind, std::int64_t count)
      : bytes(static_cast<std::size_t>(optim::state_bytes(kind, count))),
        planes(optim::planes(bytes.data(), kind, count)),
        span(optim::state_span(planes, kind, 0, count)) {}

  void* at(Plane plane) const {
    return plane == Plane::first    ? planes.first
           : plane == Plane::second ? planes.second
                                    : static_cast<void*>(planes.scales);
  }

  std::vector<std::byte> bytes;
  optim::StatePlanes planes;
  kernels::StateSpan span;
};

// Moments of another format, by way of fp32.
void convert_moments(const PlaneFile& file, ParameterStore& store) {
  const auto& all = store.parameters().all;
  const auto moments = [](const StateKind& kind) {
    Planes planes = optim::state_planes(kind);
    std::erase(planes, Plane::low);
    return planes;
  };
  for (int p = 0; p < static_cast<int>(all.size()); ++p) {
    const model::Parameter& parameter = all[static_cast<std::size_t>(p)];
    for_pieces(parameter.count(), [&](std::int64_t first, std::int64_t n) {
      const Piece from(file.kind(), n);
      for (const Plane plane : moments(file.kind())) {
        file.read(parameter, plane, first, n, from.at(plane));
      }
      std::vector<float> wide(static_cast<std::size_t>(2 * n));
      optim::widen_moments(from.span, wide.data(), wide.data() + n);
      const Piece to(store.kind(), n);
      optim::narrow_moments(wide.data(), wide.data() + n, to.span);
      for (const Plane plane : moments(store.kind())) {
        store.write(plane, p, first, n, to.at(plane));
      }
    });
  }
}

// What others need to load the weights, and the weights.
void write_model(io::FileSystem& files, checkpoint::CheckpointWriter& writer, ParameterStore& store,
                 const Companions& companions) {
  write_file(files, writer, checkpoint::kWeightsName, store, {Plane::weight});
  writer.write_json(kConfigName, config_to_save(companions, store.kind().weight_type));
  for (const Companions::Copy& copy : companions.copies) writer.copy_file(copy.name, *copy.file);
}

}  // namespace

void verify_checkpoint(io::FileSystem& files, const std::filesystem::path& folder) {
  checkpoint::verify(
      files, folder,
      {.required = {kCheckpointFiles.begin(), kCheckpointFiles.end()}, .skip = {}, .advice = {}});
}

std::filesystem::path save_checkpoint(io::FileSystem& files, const std::filesystem::path& root,
                                      ParameterStore& store, const Companions& companions,
                                      const TrainingState& state, int keep) {
  checkpoint::CheckpointWriter writer(files, root, state.step);
  write_model(files, writer, store, companions);
  write_file(files, writer, kStateName, store, optim::state_planes(store.kind()));
  writer.write_json(kTrainingName, to_json(state));
  const std::filesystem::path published = writer.publish();
  checkpoint::keep_last(files, root, keep);
  return published;
}

std::filesystem::path save_weights(io::FileSystem& files, const std::filesystem::path& root,
                                   ParameterStore& store, const Companions& companions,
                                   std::int64_t step) {
  checkpoint::CheckpointWriter writer(files, root, step);
  write_model(files, writer, store, companions);
  return writer.publish();
}

void load_checkpoint(io::FileSystem& files, const std::filesystem::path& folder,
                     optim::StateFormat stored, ParameterStore& store) {
  StateKind kind = store.kind();
  kind.format = stored;
  load_planes(PlaneFile(files, folder / checkpoint::kWeightsName, kind), store, {Plane::weight});
  const PlaneFile states(files, folder / kStateName, kind);
  if (stored == store.kind().format) return load_planes(states, store, optim::state_planes(kind));
  if (kind.weight_type == DType::bf16) load_planes(states, store, {Plane::low});
  convert_moments(states, store);
}

}  // namespace ebb::engine
