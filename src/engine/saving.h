// When a run is saved, and what is done where that fails: nothing that is whole in memory is thrown
// away as long as a disk may take it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "ebb/train.h"
#include "engine/parameter_store.h"
#include "files/model/sidecar_files.h"
#include "files/run/run_folder.h"
#include "files/run/training_state.h"
#include "io/file_system.h"

namespace ebb::engine {

// Bytes of a checkpoint of this store, headers and small files included.
Bytes checkpoint_bytes(const ParameterStore& store, const files::SidecarFiles& sidecar_files);

struct SavingSettings {
  SaveEvery every;
  int keep = 2;  // checkpoints
  double patience_seconds = 600;
  double retry_seconds = 10;  // between two attempts while it is patient
  // Asked while it waits for the next attempt: once it becomes true, the last save is given up.
  std::function<bool()> stop_requested = [] { return false; };
};

// The checkpoints of one run. For one thread; the lanes must be empty when it saves.
class Saving {
 public:
  using Clock = std::chrono::steady_clock;

  // Keeps references to all of it. `saved_step` is the step of the checkpoint that the run goes on
  // from, -1 for none.
  Saving(io::FileSystem& files, const std::filesystem::path& root, ParameterStore& store,
         const files::SidecarFiles& sidecar_files, const SavingSettings& settings,
         std::int64_t saved_step, Note note);

  bool wanted() const { return settings_.every.kind != SaveEvery::Kind::never; }

  // Before the first step. Throws IoError where the disk has no room for one checkpoint, or a
  // folder that is not Ebb's is in the way of one; tells where it has room for fewer than --keep
  // makes.
  void check_space();

  // Whether a save is to be made now, after this step.
  bool due(std::int64_t step) const;

  // A save on the way. Where it fails that is told, the run may go on, and it is due again soon.
  void save(const files::TrainingState& state);

  // One that the caller asks for, whatever the settings say of when. Throws IoError where it fails.
  void save_now(const files::TrainingState& state);

  // The last one, at the end or before an error is told. Where it fails the weights alone are kept,
  // if there is room for those, and all of it is tried again for as long as the settings say. Then
  // throws the IoError, with what was kept, and has given up: a caller that asks once more waits as
  // long again.
  void save_finally(const files::TrainingState& state);
  bool gave_up() const { return gave_up_; }
  // What is to be saved lies on a drive that fails: trying again would not help.
  void lose_patience() { settings_.patience_seconds = 0; }

  // The folder of the last checkpoint; empty where there is none.
  const std::string& last() const { return last_; }
  void set_last(std::string folder) { last_ = std::move(folder); }

 private:
  void publish(const files::TrainingState& state);
  // Empty where it did not fail.
  std::string failure_to_publish(const files::TrainingState& state);
  void wait(double seconds, bool stopped) const;
  void tell(const std::string& text);
  std::filesystem::path weights_root() const { return root_ / "weights"; }
  void make_room();
  // Where the weights went; empty where that failed, too.
  std::string keep_weights(const files::TrainingState& state);
  // And the folder around them where it is empty then.
  void remove_weights(const std::string& folder);

  io::FileSystem& files_;
  std::filesystem::path root_;
  ParameterStore& store_;
  const files::SidecarFiles& sidecar_files_;
  SavingSettings settings_;
  std::int64_t saved_step_;
  Note note_;
  Bytes bytes_;
  std::string last_;
  Clock::time_point ended_ = Clock::now();  // the last save, or attempt at one
  double seconds_ = 0;                      // the last save took
  bool failed_ = false;                     // the last attempt did
  bool gave_up_ = false;
  std::string untold_;  // lines for the next note
};

}  // namespace ebb::engine
