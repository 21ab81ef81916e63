#include "engine/data_check.h"

#include <map>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::engine {
namespace {

constexpr std::size_t kMostTold = 20;

using Files = std::multimap<std::string, const Json*>;

// A checkpoint's list may hold anything.
Files by_name(const Json& list) {
  Files files;
  for (const Json& file : list) {
    if (!file.is_object() || !file.contains("name") || !file["name"].is_string() ||
        !file.contains("bytes") || !file.contains("digest") || !file["digest"].is_string()) {
      throw FormatError(fmt::format(
          "{}: a data file should have a name, bytes and a digest, found {}. Resume from an older "
          "checkpoint: move this folder away and use --resume again.",
          files::kTrainingName, in_quotes(file.dump())));
    }
    files.emplace(file["name"].get<std::string>(), &file);
  }
  return files;
}

// What changed in one file; empty where nothing differs, as far as that is known now.
std::string change_of(const Json& stored, const Json& now) {
  if (stored["bytes"] != now["bytes"]) {
    return fmt::format("{} bytes in the checkpoint, {} now", stored["bytes"].dump(),
                       now["bytes"].dump());
  }
  const auto& before = stored["digest"].get_ref<const std::string&>();
  const auto& after = now["digest"].get_ref<const std::string&>();
  if (after.empty()) return "";
  if (before.empty()) return "it changed during the run, so what it held is not known";
  return before == after ? "" : "other content of the same size";
}

// `what` is "data" or "data to validate on".
void compare_lists(const Json& stored, const Json& now, const std::string& what,
                   std::vector<std::string>& changes) {
  const std::size_t before = changes.size();
  Files given = by_name(now);
  for (const auto& [name, file] : by_name(stored)) {
    const auto found = given.find(name);
    const std::string change =
        found == given.end() ? "missing now" : change_of(*file, *found->second);
    if (found != given.end()) given.erase(found);
    if (!change.empty()) changes.push_back(fmt::format("{} {}: {}", what, in_quotes(name), change));
  }
  for (const auto& [name, file] : given) {
    changes.push_back(fmt::format("{} {}: new", what, in_quotes(name)));
  }
  if (changes.size() > before) return;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    if (stored[i]["name"] == now[i]["name"]) continue;
    changes.push_back(fmt::format("{} {}: now comes in another place, before it {}", what,
                                  in_quotes(stored[i]["name"].get<std::string>()),
                                  in_quotes(now[i]["name"].get<std::string>())));
    return;
  }
}

void compare_sets(const Json& stored, const Json& now, const std::string& what, bool complete,
                  std::vector<std::string>& changes) {
  const auto list_of = [](const Json& set) {
    return set.is_object() ? set.value("files", Json()) : Json();
  };
  const Json before = list_of(stored);
  const Json after = list_of(now);
  if (before.is_array() && after.is_array()) return compare_lists(before, after, what, changes);
  const bool same = stored.is_object() && stored.value("content", Json()) == now["content"];
  if (complete && !same) {
    changes.push_back(fmt::format(
        "{}: other files or other content (there are too many files to list each)", what));
  }
}

// Empty where nothing differs, as far as that is known.
std::vector<std::string> changes_since(const files::TrainingState& state, const TrainingData& data,
                                       const Json& now, bool complete) {
  std::vector<std::string> changes;
  if (state.data.contains("beginnings")) {
    if (state.data["beginnings"] != data.beginnings_digest()) {
      changes.push_back(
          "data: another name, size or beginning of a file, or other files (the checkpoint was "
          "made "
          "by an Ebb that did not keep which)");
    }
    return changes;
  }
  compare_sets(state.data.value("training", Json()), now["training"], "data", complete, changes);
  // With data to validate on given for the first time, or no longer, no loss is compared with
  // another.
  const Json validation = state.data.value("validation", Json());
  if (!validation.is_null() && !now["validation"].is_null()) {
    compare_sets(validation, now["validation"], "data to validate on", complete, changes);
  }
  if (changes.size() > kMostTold) {
    const std::size_t more = changes.size() - kMostTold;
    changes.resize(kMostTold);
    changes.push_back(fmt::format("and {} more", more));
  }
  return changes;
}

void refuse(const std::vector<std::string>& changes) {
  throw ConfigError(fmt::format(
      "--resume: the data is not what the checkpoint was trained on:\n  {}\nRestore the files; or "
      "add --accept-changed-data to go on with what is there now, at the same item number of the "
      "epoch; or start a new run in another --out.",
      fmt::join(changes, "\n  ")));
}

}  // namespace

void compare_known_data(const files::TrainingState& state, const TrainingData& data, bool accept) {
  if (accept) return;
  const auto changes = changes_since(state, data, data.contents_so_far(), false);
  if (!changes.empty()) refuse(changes);
}

void compare_all_data(files::TrainingState& state, TrainingData& data, bool accept,
                      const Note& note) {
  const TrainingData::Contents now = *data.contents(note, [] { return true; });
  if (!now.problem.empty()) throw IoError(now.problem);
  const auto changes = changes_since(state, data, now.json, true);
  if (!changes.empty() && !accept) refuse(changes);
  if (!changes.empty()) {
    state.accepted_changes.push_back({{"step", state.step}, {"changes", changes}});
    state.data_position = data.position_after_change(state.data_position);
    note(fmt::format(
        "--accept-changed-data: the data is not what the checkpoint was trained on:\n  {}\nGoing "
        "on "
        "with it at item {} of epoch {}, counted from 0; the run remembers the change.",
        fmt::join(changes, "\n  "), state.data_position.item, state.data_position.epoch));
  } else if (state.data.contains("beginnings")) {
    note(
        "The checkpoint kept only the names, the sizes and the first 64 KiB of the data files, and "
        "those are the same; the next one keeps digests of all of them.");
  }
  state.data = now.json;
}

void record_data(files::TrainingState& state, TrainingData& data, const Note& note,
                 const std::function<bool()>& go_on) {
  if (!state.data.is_null() && !state.data.contains("beginnings")) return;
  // An output that nobody reads any more is no reason not to save.
  const Note safely = [&](const std::string& text) {
    try {
      note(text);
    } catch (const std::exception&) {
    }
  };
  std::optional<TrainingData::Contents> now = data.contents(safely, go_on);
  if (!now) {
    if (state.data.is_null()) {
      safely(
          "The data was not read to its end before the run was stopped: the checkpoint keeps the "
          "names, the sizes and the first 64 KiB of its files.");
    }
    state.data = {{"beginnings", data.beginnings_digest()}};
    return;
  }
  if (!now->problem.empty()) {
    safely(
        fmt::format("{}\nThe checkpoint cannot say what that file held; --resume will ask for "
                    "--accept-changed-data.",
                    now->problem));
  }
  state.data = std::move(now->json);
}

}  // namespace ebb::engine
