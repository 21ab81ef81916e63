#include "files/run/training_state.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "ebb/error.h"
#include "io/text_file.h"

namespace ebb::files {
namespace {

constexpr int kVersion = 2;

// Takes members of the file with errors that name them.
class Reader {
 public:
  Reader(const Json& json, const std::filesystem::path& path) : json_(json), path_(path) {}

  const Json& member(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(key, "something", "nothing");
    return *found;
  }
  std::uint64_t unsigned_number(const char* key) const {
    expect(key, member(key).is_number_unsigned(), "a whole number from 0");
    return member(key).get<std::uint64_t>();
  }
  std::int64_t whole_number(const char* key) const {
    expect(key, unsigned_number(key) <= INT64_MAX, "a number below 2^63");
    return member(key).get<std::int64_t>();
  }
  void expect(const char* key, bool good, std::string_view expected) const {
    if (!good) fail(key, expected, in_quotes(member(key).dump()));
  }

 private:
  [[noreturn]] void fail(const char* key, std::string_view expected, std::string_view found) const {
    throw FormatError(fmt::format(
        "{}: not a training state of this version of Ebb: '{}' should be {}, found {}. "
        "Resume from an older checkpoint: move this folder away and use --resume again.",
        path_.string(), key, expected, found));
  }

  const Json& json_;
  const std::filesystem::path& path_;
};

}  // namespace

Json to_json(const TrainingState& state) {
  Json json = {{"format", "ebb training state"},
               {"version", kVersion},
               {"step", state.step},
               {"data_position", text::to_json(state.data_position)},
               {"seed", state.seed},
               {"numerics_key", state.numerics_key},
               {"accepted_changes", state.accepted_changes}};
  if (!state.data.is_null()) json["data"] = state.data;
  return json;
}

TrainingState read_training_state(io::FileSystem& files, const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kTrainingName;
  if (!files.exists(path)) {
    throw FormatError(fmt::format(
        "{}: this file is missing, so there is no training state to go on from", path.string()));
  }
  const Json json = parse_json(io::read_text(files, path, 16 * kMiB), path.string());
  const Reader reader(json, path);
  const std::int64_t version = reader.whole_number("version");
  if (version == 1) {
    throw FormatError(fmt::format(
        "{}: expected a training state of version {}, found 1, which counts the data in samples "
        "that are no longer cut. Finish the run with the Ebb that began it, or start a new one "
        "from "
        "its weights with --model.",
        path.string(), kVersion));
  }
  reader.expect("version", version == kVersion, std::to_string(kVersion));
  TrainingState state;
  state.step = reader.whole_number("step");
  reader.expect("step", state.step <= std::int64_t{1} << 40, "a number of steps");
  state.data_position = text::parse_position(reader.member("data_position"), path.string());
  state.seed = reader.unsigned_number("seed");
  state.numerics_key = reader.member("numerics_key");
  reader.expect("numerics_key", state.numerics_key.is_object(), "an object");
  if (json.contains("data")) {
    state.data = reader.member("data");
    reader.expect("data", state.data.is_object(), "an object");
    state.accepted_changes = reader.member("accepted_changes");
    reader.expect("accepted_changes", state.accepted_changes.is_array(), "a list");
  } else {
    const Json key = state.numerics_key.value("data", Json::object());
    state.data = {{"beginnings", key.is_object() ? key.value("digest", Json()) : Json()}};
  }
  return state;
}

}  // namespace ebb::files
