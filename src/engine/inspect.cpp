#include "ebb/inspect.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"
#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/model_source.h"
#include "io/posix_file_system.h"

namespace ebb {
namespace {

std::string describe_model(const engine::ModelSource& source) {
  const model::Config& c = source.config;
  const std::int64_t count = model::parameters_of(c).count();
  return fmt::format(
      "Model: {} family, {} parameters\n"
      "  {} blocks of width {}, MLP {}, {} query heads and {} key-value heads of {}\n"
      "  vocabulary {}, up to {} positions, {} embeddings{}\n"
      "  weights in bf16 take {}; training state (exact) {} more\n",
      c.family, format_count(count), c.layers, c.hidden, c.intermediate, c.heads, c.kv_heads,
      c.head_dim, c.vocabulary, c.max_positions, c.tied ? "tied" : "untied",
      c.qkv_bias ? ", biases on q, k and v" : "", format_bytes(2 * count),
      format_bytes(10 * count));
}

std::string describe_tensors(io::FileSystem& files, const std::filesystem::path& path) {
  const checkpoint::SafetensorsReader reader(files, path);
  std::string text = fmt::format("{}: safetensors, {} tensors\n", path.filename().string(),
                                 reader.tensors().size());
  for (const auto& [key, value] : reader.metadata()) text += fmt::format("  {} = {}\n", key, value);
  std::size_t width = 0;
  for (const auto& tensor : reader.tensors()) width = std::max(width, tensor.name.size());
  for (const auto& tensor : reader.tensors()) {
    text += fmt::format("  {:<{}}  {:<5} {:>10}  [{}]\n", tensor.name, width, name_of(tensor.type),
                        format_bytes(tensor.bytes), fmt::join(tensor.shape, ", "));
  }
  return text;
}

std::string describe_checkpoint(io::FileSystem& files, const std::filesystem::path& folder,
                                bool& sound) {
  const checkpoint::Manifest manifest = checkpoint::read_manifest(files, folder);
  std::string text = fmt::format("Checkpoint of step {}: {}\n", manifest.step, folder.string());
  for (const checkpoint::ManifestFile& file : manifest.files) {
    text += fmt::format("  {:<20} {:>10}  {}\n", file.name, format_bytes(file.bytes), file.digest);
  }
  try {
    checkpoint::verify(files, folder);
    text += "  all checksums are right\n";
  } catch (const Error& error) {
    sound = false;
    text += fmt::format("  BROKEN: {}\n", error.what());
  }
  if (files.exists(folder / "training.json")) {
    const engine::TrainingState state = engine::read_training_state(files, folder);
    text += fmt::format("Training state: step {}, data at {}, seed {}\n  numerics key: {}\n",
                        state.step, text::to_json(state.data_position).dump(), state.seed,
                        state.numerics_key.dump());
  }
  return text;
}

}  // namespace

Inspection inspect(const std::string& path) {
  io::PosixFileSystem files;
  if (path.starts_with("preset:")) return {describe_model(engine::find_model(files, path))};
  if (!files.exists(path)) throw IoError(fmt::format("{}: no such file or folder", path));
  if (!files.is_directory(path)) return {describe_tensors(files, path)};

  std::filesystem::path folder = path;
  if (!files.exists(folder / "config.json")) {
    if (const auto latest = checkpoint::latest_checkpoint(files, folder)) folder = *latest;
  }
  if (!files.exists(folder / "config.json")) {
    throw FormatError(fmt::format(
        "{}: there is neither a model (config.json) nor a checkpoint in this folder", path));
  }
  Inspection found;
  if (files.exists(folder / "manifest.json"))
    found.text += describe_checkpoint(files, folder, found.sound);
  const engine::ModelSource source = engine::find_model(files, folder.string());
  found.text += describe_model(source) + describe_tensors(files, source.weights());
  return found;
}

}  // namespace ebb
