// What Ebb itself writes: checkpoints and their training state, profiles of machines.
#include <algorithm>

#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "files/folder.h"
#include "files/json_file.h"
#include "measure/inspect/report.h"
#include "plan/explain.h"

namespace ebb::measure {

// Reads every byte, for the checksums. What is broken is told, and the rest of the folder still
// described.
void describe_checkpoint(Report& report, io::FileSystem& files,
                         const std::filesystem::path& folder) {
  const files::Manifest manifest = files::read_manifest(files, folder);
  report.line("Checkpoint of step {}: {}", manifest.step, folder.string());
  Json& json = report.json["checkpoint"];
  json = {
      {"folder", folder.string()}, {"step", manifest.step}, {"manifest_version", manifest.version}};
  for (const files::ManifestFile& file : manifest.files) {
    report.line("  {:<24} {:>10}  {}", short_text(file.name), format_bytes(file.bytes),
                short_text(file.digest));
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.digest}});
  }
  try {
    // Only a checkpoint of training has to have all of its files.
    const bool states =
        std::any_of(manifest.files.begin(), manifest.files.end(), [](const auto& file) {
          return file.name == files::kStateName || file.name == files::kTrainingName;
        });
    if (states) {
      files::verify_checkpoint(files, folder);
    } else {
      report.line("  weights alone: nothing to resume from");
      files::verify(files, folder,
                    {.required = {files::kModelFiles.begin(), files::kModelFiles.end()},
                     .skip = {},
                     .advice = "Use a copy."});
    }
    report.line(
        "  all checksums are right{}",
        manifest.version >= 2 ? "" : "; the manifest is of version 1, without one of its own");
  } catch (const Error& error) {
    report.sound = false;
    report.line("  BROKEN: {}", error.what());
    json["broken"] = error.what();
  }
  json["sound"] = report.sound;
  if (files.exists(folder / files::kTrainingName)) describe_training_state(report, files, folder);
}

void describe_training_state(Report& report, io::FileSystem& files,
                             const std::filesystem::path& folder) {
  const files::TrainingState state = files::read_training_state(files, folder);
  report.json["training"] = to_json(state);
  report.line("Training state: step {}, data at {}, seed {}\n  numerics key: {}", state.step,
              text::to_json(state.data_position).dump(), state.seed, state.numerics_key.dump());
}

void describe_profile(Report& report, io::FileSystem& files, const std::filesystem::path& path) {
  const plan::Profile profile = plan::parse_profile(files::read_json(files, path), path.string());
  report.json["kind"] = "profile of a machine";
  report.json["profile"] = plan::to_json(profile);
  report.line("Machine: {} ({}), device memory {}, host memory {}, {} cores", profile.name,
              profile.device, format_bytes(profile.device_memory),
              format_bytes(profile.host_memory), profile.cores);
  report.text += plan::explain_speeds(profile);
}

}  // namespace ebb::measure
