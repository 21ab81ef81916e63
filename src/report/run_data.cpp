#include "report/run_data.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/printable.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "files/folder.h"
#include "files/json_file.h"
#include "files/manifest.h"
#include "files/run/training_state.h"
#include "io/text_file.h"
#include "report/picture.h"

namespace ebb::report {
namespace {

constexpr Bytes kPieceBytes = kMiB;
// A picture has a few MB.
constexpr Bytes kMostPictureBytes = 64 * kMiB;
constexpr std::size_t kMostRowsOfATable = 400;
constexpr std::size_t kMostValueBytes = 300;
constexpr std::size_t kMostWordsBytes = 64 * 1024;
constexpr std::size_t kMostTiers = 16;

// "optimizer.schedule.peak", "0.001": a row for each value, in the order of the file.
void flatten(const Json& json, const std::string& name, Rows& rows) {
  if (rows.size() >= kMostRowsOfATable) return;
  if (json.is_object() && !json.empty()) {
    for (const auto& [key, value] : json.items()) {
      flatten(value, (name.empty() ? "" : name + ".") + printable(key, 100), rows);
    }
    return;
  }
  const std::string value = json.is_string() ? json.get<std::string>() : json.dump();
  rows.emplace_back(name, printable(value, kMostValueBytes));
}

const Json* find(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

double figure(const Json& json, const char* key) {
  const Json* found = find(json, key);
  return found == nullptr ? 0 : number_of(*found).value_or(0);
}

std::int64_t count_at(const Json& json, const char* key) {
  const Json* found = find(json, key);
  return found == nullptr ? 0 : count_of(*found).value_or(0);
}

// The list's objects, as far as it is one and they are.
void each_of(const Json& json, const char* key, const std::function<void(const Json&)>& take) {
  const Json* list = find(json, key);
  if (list == nullptr || !list->is_array()) return;
  for (std::size_t i = 0; i < std::min(list->size(), kMostTiers); ++i) take((*list)[i]);
}

void take_plan(RunData& run, const Json& plan) {
  run.planned_steps = count_at(plan, "steps");
  run.tokens_per_step = count_at(plan, "tokens_per_step");
  run.predicted_step_seconds = figure(plan, "step_seconds");
  run.predicted_tokens_per_second = figure(plan, "tokens_per_second");
  run.words = text_at(plan, "words", kMostWordsBytes);
  each_of(plan, "tiers", [&](const Json& tier) {
    run.tiers.push_back({.name = text_at(tier, "name", 100),
                         .limit = count_at(tier, "limit"),
                         .predicted_peak = count_at(tier, "predicted_peak")});
  });
  each_of(plan, "lanes", [&](const Json& lane) {
    run.lanes.push_back({.name = text_at(lane, "name", 100),
                         .predicted_seconds = figure(lane, "busy_seconds"),
                         .exposed_seconds = figure(lane, "exposed_seconds")});
  });
  if (const Json* step = find(plan, "step")) run.predicted = checked_step(*step);
  const auto about = [&](const char* key, const char* label) {
    const Json* value = find(plan, key);
    if (value == nullptr) return;
    run.about.emplace_back(
        label,
        printable(value->is_string() ? value->get<std::string>() : value->dump(), kMostValueBytes));
  };
  about("model", "model");
  about("parameters", "parameters");
  about("data", "data");
  about("machine", "speeds of");
  about("device", "device");
  about("threads", "threads");
  about("isa", "instruction set");
  about("started", "started");
  about("ebb", "ebb");
  if (const std::string flags = text_at(plan, "flags", 2000); !flags.empty()) {
    run.settings.emplace_back("plan", flags);
  }
  if (const Json* settings = find(plan, "settings")) flatten(*settings, "", run.settings);
}

void take_step(RunData& run, const Json& step) {
  if (const Json* picture = find(step, "step")) run.measured = checked_step(*picture);
  each_of(step, "tiers", [&](const Json& tier) {
    const std::string name = text_at(tier, "name", 100);
    const auto known = std::ranges::find(run.tiers, name, &TierFigures::name);
    if (known != run.tiers.end()) known->measured_peak = count_at(tier, "measured_peak");
  });
  if (!run.measured.is_object()) return;
  for (const Json& lane : run.measured.at("lanes")) {
    const auto known =
        std::ranges::find(run.lanes, lane.at("name").get<std::string>(), &LaneFigures::name);
    if (known != run.lanes.end()) known->measured_seconds = lane.at("busy_seconds").get<double>();
  }
}

void take_checkpoint(RunData& run, io::FileSystem& files, const std::filesystem::path& folder) {
  const auto checkpoint = files::latest_checkpoint(files, folder);
  if (!checkpoint) return;
  const files::Manifest manifest = files::read_manifest(files, *checkpoint);
  run.about.emplace_back("last checkpoint", checkpoint->filename().string());
  run.about.emplace_back("manifest version", std::to_string(manifest.version));
  for (const files::ManifestFile& file : manifest.files) {
    if (run.digests.size() >= kMostRowsOfATable) break;
    run.digests.emplace_back(printable(file.name, 200), printable(file.digest, 100));
  }
  const std::filesystem::path training = *checkpoint / files::kTrainingName;
  if (!files.exists(training)) return;
  const Json state = files::read_json(files, training);
  if (const Json* data = find(state, "data")) flatten(*data, "data", run.digests);
  const Json* key = find(state, "numerics_key");
  // Runs of an Ebb before plan.json keep their settings there alone.
  if (key != nullptr && run.settings.empty()) flatten(*key, "", run.settings);
}

Json read_picture(io::FileSystem& files, const std::filesystem::path& path) {
  return parse_json(io::read_text(files, path, kMostPictureBytes), path.string());
}

}  // namespace

Bytes read_pieces(io::FileSystem& files, const std::filesystem::path& path, Bytes offset,
                  FunctionRef<void(std::string_view)> take) {
  const auto file = files.open(path);
  const Bytes end = file->size();
  std::string piece;
  while (offset < end) {
    piece.resize(to_size(std::min(end - offset, kPieceBytes)));
    file->read(offset, std::as_writable_bytes(std::span(piece)));
    take(piece);
    offset += static_cast<Bytes>(piece.size());
  }
  return end;
}

RunData read_plan(io::FileSystem& files, const std::filesystem::path& folder) {
  RunData run;
  run.name = folder.string();
  take_plan(run, read_picture(files, folder / kPlanName));
  return run;
}

RunData read_run(io::FileSystem& files, const std::filesystem::path& folder) {
  const bool has_log = files.is_file(folder / kLogName);
  const bool has_plan = files.is_file(folder / kPlanName);
  if (!has_log && !has_plan) {
    throw ConfigError(fmt::format(
        "{}: this is no run: expected a folder with {}; give the one that 'ebb train --out' made",
        in_quotes(folder.string()), kLogName));
  }
  RunData run;
  run.name = folder.string();
  // One file that is broken is no reason to show nothing of the others.
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      run.notes.push_back(printable(error.what(), 500));
    }
  };
  if (has_log) {
    attempt([&] {
      read_pieces(files, folder / kLogName, 0,
                  [&](std::string_view piece) { run.log.feed(piece); });
    });
  }
  if (run.log.bad_lines() > 0) {
    run.notes.push_back(fmt::format("{} lines of {} are not a log's and were left out",
                                    run.log.bad_lines(), kLogName));
  }
  if (has_plan) attempt([&] { take_plan(run, read_picture(files, folder / kPlanName)); });
  if (files.is_file(folder / kStepName)) {
    attempt([&] { take_step(run, read_picture(files, folder / kStepName)); });
  }
  attempt([&] { take_checkpoint(run, files, folder); });
  for (const auto& [name, bytes] : run.log.memory()) {
    const auto known = std::ranges::find(run.tiers, name, &TierFigures::name);
    if (known != run.tiers.end()) known->measured_peak = std::max(known->measured_peak, bytes);
  }
  return run;
}

RunData data_of_plan(const std::string& name, std::string_view plan_json) {
  RunData run;
  run.name = name;
  take_plan(run, parse_json(plan_json, name));
  return run;
}

}  // namespace ebb::report
