// Checkpoints and their training state.
#include "checkpoint/folder.h"
#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/inspect/report.h"

namespace ebb::engine {

void describe_checkpoint(Report& report, io::FileSystem& files,
                         const std::filesystem::path& folder) {
  const checkpoint::Manifest manifest = checkpoint::read_manifest(files, folder);
  report.line("Checkpoint of step {}: {}", manifest.step, folder.string());
  Json& json = report.json["checkpoint"];
  json = {{"folder", folder.string()}, {"step", manifest.step}};
  for (const checkpoint::ManifestFile& file : manifest.files) {
    report.line("  {:<24} {:>10}  {}", printable(file.name), format_bytes(file.bytes),
                printable(file.digest));
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.digest}});
  }
  try {
    checkpoint::verify(files, folder);
    report.line("  all checksums are right");
  } catch (const Error& error) {
    report.sound = false;
    report.line("  BROKEN: {}", error.what());
    json["broken"] = error.what();
  }
  json["sound"] = report.sound;
  if (files.exists(folder / kTrainingName)) describe_training_state(report, files, folder);
}

void describe_training_state(Report& report, io::FileSystem& files,
                             const std::filesystem::path& folder) {
  const TrainingState state = read_training_state(files, folder);
  report.line("Training state: step {}, {} samples consumed, seed {}\n  numerics key: {}",
              state.step, state.data_position, state.seed, state.numerics_key.dump());
  report.json["training"] = {{"step", state.step},
                             {"data_position", state.data_position},
                             {"seed", state.seed},
                             {"numerics_key", state.numerics_key}};
}

}  // namespace ebb::engine
