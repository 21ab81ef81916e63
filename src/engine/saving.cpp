#include "engine/saving.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "files/folder.h"

namespace ebb::engine {
namespace {

using Kind = SaveEvery::Kind;
using Seconds = std::chrono::duration<double>;

constexpr double kAutomaticSeconds = 600;
// The share of a run's time that automatic saves may take.
constexpr double kAutomaticShare = 0.05;
// After a save on the way failed.
constexpr double kDueAgainSeconds = 60;

double seconds_since(Saving::Clock::time_point then) {
  return Seconds(Saving::Clock::now() - then).count();
}

}  // namespace

Bytes checkpoint_bytes(const ParameterStore& store, const files::SidecarFiles& sidecar_files) {
  constexpr Bytes header_of_tensor = 256;  // names and shapes of others are shorter
  constexpr Bytes small_files = 256 * kKiB;
  std::vector<states::Plane> planes = states::state_planes(store.kind());
  planes.push_back(states::Plane::weight);
  Bytes bytes = small_files;
  for (const model::Parameter& parameter : store.parameters().all) {
    for (const states::Plane plane : planes) {
      bytes += header_of_tensor + states::grain_of(plane, store.kind()).size_of(parameter.count());
    }
  }
  for (const files::SidecarFiles::Copy& copy : sidecar_files.copies) bytes += copy.file->size();
  return bytes;
}

Saving::Saving(io::FileSystem& files, const std::filesystem::path& root, ParameterStore& store,
               const files::SidecarFiles& sidecar_files, const SavingSettings& settings,
               std::int64_t saved_step, Note note)
    : files_(files),
      root_(root),
      store_(store),
      sidecar_files_(sidecar_files),
      settings_(settings),
      saved_step_(saved_step),
      note_(std::move(note)),
      bytes_(checkpoint_bytes(store, sidecar_files)) {
  if (settings_.keep == 0) settings_.every.kind = Kind::never;
}

void Saving::check_space() {
  if (!wanted()) {
    note_("Nothing will be saved, as was asked for: what is trained is gone when the run ends");
    return;
  }
  // What a crash left takes room that the next save may need, what is somebody's own its name.
  files::check_names_free(files_, root_, saved_step_);
  files::keep_last(files_, root_, settings_.keep);
  const Bytes available = files_.available(root_);
  if (available < bytes_) {
    throw IoError(fmt::format("--out {}: a checkpoint takes {}, but that disk has {} left. Free "
                              "{}, choose a folder on "
                              "another disk, or train without saving (--save-every 0).",
                              root_.string(), format_bytes(bytes_), format_bytes(available),
                              format_bytes(bytes_ - available)),
                  root_.string());
  }
  // One is written while `keep` others are still there.
  const std::int64_t there = files::count_checkpoints(files_, root_);
  const std::int64_t more = settings_.every.kind == Kind::end ? 1 : settings_.keep + 1 - there;
  if (available < more * bytes_) {
    note_(fmt::format(
        "--out {}: that disk has {} left, room for {} of the {} checkpoints of {} that --keep {} "
        "can need there; older ones go as room is needed",
        root_.string(), format_bytes(available), available / bytes_, more, format_bytes(bytes_),
        settings_.keep));
  }
}

bool Saving::due(std::int64_t step) const {
  if (failed_ && seconds_since(ended_) >= kDueAgainSeconds) return true;
  switch (settings_.every.kind) {
    case Kind::automatic:
      return seconds_since(ended_) >= std::max(kAutomaticSeconds, seconds_ / kAutomaticShare);
    case Kind::seconds: return seconds_since(ended_) >= settings_.every.count;
    case Kind::steps: return step % static_cast<std::int64_t>(settings_.every.count) == 0;
    case Kind::end:
    case Kind::never: break;
  }
  return false;
}

// All but the last checkpoint go, as they would after this save: but only where it needs their
// room.
void Saving::make_room() {
  if (files_.available(root_) >= bytes_ || files::count_checkpoints(files_, root_) < 2) return;
  files::keep_last(files_, root_, 1);
  untold_ += fmt::format("Removed older checkpoints in {} to make room\n", root_.string());
}

// Never within an attempt at a save: that an output cannot be written is not a disk's failure.
void Saving::tell(const std::string& text) { note_(std::exchange(untold_, {}) + text); }

void Saving::publish(const files::TrainingState& state) {
  const Clock::time_point start = Clock::now();
  failed_ = true;  // unless it comes to the end
  try {
    make_room();
    if (const Bytes available = files_.available(root_); available < bytes_) {
      throw IoError(fmt::format("cannot save into '{}': a checkpoint takes {}, but that disk has "
                                "{} left. Free {} there.",
                                root_.string(), format_bytes(bytes_), format_bytes(available),
                                format_bytes(bytes_ - available)),
                    root_.string());
    }
    last_ = save_checkpoint(files_, root_, store_, sidecar_files_, state, settings_.keep).string();
  } catch (...) {
    ended_ = Clock::now();
    throw;
  }
  failed_ = false;
  saved_step_ = state.step;
  ended_ = Clock::now();
  seconds_ = seconds_since(start);
}

void Saving::save(const files::TrainingState& state) {
  if (!wanted() || state.step == saved_step_) return;
  try {
    publish(state);
  } catch (const IoError& error) {
    tell(fmt::format("Not saved: {}\nTraining goes on; it is tried again in a minute.",
                     error.what()));
    return;
  }
  tell("Saved " + last_);
}

void Saving::save_now(const files::TrainingState& state) {
  if (state.step == saved_step_) return;
  publish(state);
  tell("Saved " + last_);
}

std::string Saving::keep_weights(const files::TrainingState& state) {
  try {
    return save_weights(files_, weights_root(), store_, sidecar_files_, state.step).string();
  } catch (const IoError&) {
    remove_weights({});
    return {};  // the error of the whole save is the one to tell
  }
}

// Beside them there may be what is not Ebb's. What cannot be removed is no reason to fail.
void Saving::remove_weights(const std::string& folder) {
  try {
    if (!folder.empty()) files_.remove_all(folder);
    if (files_.list(weights_root()).empty()) files_.remove_all(weights_root());
  } catch (const IoError&) {
  }
}

std::string Saving::failure_to_publish(const files::TrainingState& state) {
  try {
    publish(state);
    return {};
  } catch (const IoError& error) {
    return error.what();
  }
}

// Sleeps in pieces, so that a person who gives up does not wait for its end.
void Saving::wait(double seconds, bool stopped) const {
  constexpr double piece = 0.1;
  const Clock::time_point start = Clock::now();
  for (double left = seconds; left > 0; left = seconds - seconds_since(start)) {
    if (!stopped && settings_.stop_requested()) return;
    std::this_thread::sleep_for(Seconds(std::min(left, piece)));
  }
}

void Saving::save_finally(const files::TrainingState& state) {
  if (!wanted() || state.step == saved_step_) return;
  const Clock::time_point start = Clock::now();
  const bool stopped = settings_.stop_requested();  // if so, this save is what it asked for
  std::optional<std::string> kept;                  // where; empty where even that failed
  for (;;) {
    const std::string why = failure_to_publish(state);
    if (why.empty()) break;
    if (!kept) kept = keep_weights(state);
    const std::string rest = kept->empty()
                                 ? "Not even the weights alone could be kept."
                                 : fmt::format("The weights alone are kept in {}.", *kept);
    const double left = settings_.patience_seconds - seconds_since(start);
    if (left <= 0 || (!stopped && settings_.stop_requested())) {
      gave_up_ = true;
      throw IoError(fmt::format("{}\n{}", why, rest), root_.string());
    }
    tell(fmt::format("Not saved: {}\n{} Trying again every {} for another {}; Ctrl-C gives up.",
                     why, rest, format_seconds(settings_.retry_seconds), format_seconds(left)));
    wait(std::min(left, settings_.retry_seconds), stopped);
  }
  if (kept) remove_weights(*kept);
  tell("Saved " + last_);
}

}  // namespace ebb::engine
