// The promise: what is whole in memory is not thrown away because a disk is full.
#include "engine/saving.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/small_runs.h"
#include "files/folder.h"
#include "files/weight_files.h"
#include "io/posix_file_system.h"
#include "io/small_disk.h"
#include "io/temp_folder.h"

namespace ebb::engine {
namespace {

using testing::Contains;
using testing::HasSubstr;
namespace fs = std::filesystem;

class SavingTest : public testing::Test {
 protected:
  SavingTest() : runtime(test_device(), 2), run(runtime, small_settings()) {
    initialize(run);
    sidecar_files.config = run.settings().config;
    bytes = checkpoint_bytes(run.store(), sidecar_files);
  }

  Saving saving(const SavingSettings& settings) {
    return Saving(disk, folder.path(), run.store(), sidecar_files, settings, -1,
                  [this](const std::string& text) {
                    notes.push_back(text);
                    if (on_note) on_note();
                  });
  }

  static files::TrainingState state(std::int64_t step) {
    files::TrainingState state;
    state.step = step;
    state.numerics_key = Json::object();
    return state;
  }

  io::TempFolder folder;
  io::PosixFileSystem files;
  io::SmallDisk disk{files, 100 * kMiB};
  Runtime runtime;
  TrainingRun run;
  files::SidecarFiles sidecar_files;
  Bytes bytes = 0;
  std::vector<std::string> notes;
  std::function<void()> on_note;
  const SavingSettings every_step{
      .every = {SaveEvery::Kind::steps, 1}, .keep = 2, .patience_seconds = 0, .retry_seconds = 0};
};

TEST_F(SavingTest, KnowsTheSizeOfACheckpoint) {
  Saving save = saving(every_step);
  save.save_finally(state(1));
  EXPECT_LE(disk.used(), bytes);
  EXPECT_GT(disk.used() * 1.05 + 300 * kKiB, bytes) << "far too careful";
}

TEST_F(SavingTest, ADiskWithoutRoomForOneIsRefusedBeforeTheFirstStep) {
  disk.set_room(bytes - 1);
  try {
    saving(every_step).check_space();
    FAIL() << "nothing was refused";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr(format_bytes(bytes)));
    EXPECT_THAT(error.what(), HasSubstr("--save-every 0"));
  }
  SavingSettings none = every_step;
  none.every = {SaveEvery::Kind::never};
  saving(none).check_space();
}

TEST_F(SavingTest, FewerThanKeepNeedsIsToldAndOlderOnesGoFirst) {
  disk.set_room(2 * bytes);
  Saving save = saving(every_step);
  save.check_space();
  EXPECT_THAT(notes, Contains(HasSubstr("--keep 2")));
  for (int step = 1; step <= 5; ++step) save.save(state(step));
  EXPECT_EQ(save.last(), (folder / "step-00000005").string());
  EXPECT_TRUE(fs::exists(folder / "step-00000005"));
  EXPECT_LE(disk.most_used(), 2 * bytes);
}

TEST_F(SavingTest, ASaveOnTheWayThatFailsIsToldAndTheRunGoesOn) {
  Saving save = saving(every_step);
  save.save(state(1));
  disk.set_room(disk.used() + bytes / 2);
  save.save(state(2));
  EXPECT_THAT(notes.back(), HasSubstr("Not saved"));
  EXPECT_EQ(save.last(), (folder / "step-00000001").string());
  EXPECT_EQ(files::latest_checkpoint(disk, folder.path()), folder / "step-00000001");
  disk.set_room(100 * kMiB);
  save.save(state(3));
  EXPECT_EQ(save.last(), (folder / "step-00000003").string());
}

TEST_F(SavingTest, TheLastSaveIsTriedAgainUntilThereIsRoom) {
  SavingSettings patient = every_step;
  patient.patience_seconds = 3600;
  disk.set_room(bytes / 2);
  // Somebody reads the note and frees space.
  int waits = 0;
  on_note = [&] {
    if (notes.back().find("Not saved") != std::string::npos && ++waits == 2) {
      disk.set_room(100 * kMiB);
    }
  };
  Saving save = saving(patient);
  save.save_finally(state(4));
  EXPECT_EQ(waits, 2);
  EXPECT_EQ(save.last(), (folder / "step-00000004").string());
  EXPECT_FALSE(fs::exists(folder / "weights")) << "not needed any more";
}

// An hour would be too long for a test: that it ends is what is tested.
TEST_F(SavingTest, WhoStopsItWhileItWaitsGivesUp) {
  SavingSettings patient = every_step;
  patient.patience_seconds = patient.retry_seconds = 3600;
  bool stopped = false;
  patient.stop_requested = [&] { return stopped; };
  on_note = [&] { stopped = notes.back().find("Not saved") != std::string::npos; };
  disk.set_room(bytes / 2);
  Saving save = saving(patient);
  EXPECT_FALSE(save.gave_up());
  EXPECT_THROW(save.save_finally(state(4)), IoError);
  EXPECT_TRUE(save.gave_up());
  EXPECT_TRUE(fs::exists(folder / "weights/step-00000004/model.safetensors"));
}

// What stopped the run asked for this very save.
TEST_F(SavingTest, AStopBeforeTheLastSaveDoesNotGiveItUp) {
  SavingSettings patient = every_step;
  patient.patience_seconds = 3600;
  patient.stop_requested = [] { return true; };
  disk.set_room(bytes / 2);
  on_note = [&] { disk.set_room(100 * kMiB); };
  Saving save = saving(patient);
  save.save_finally(state(4));
  EXPECT_EQ(save.last(), (folder / "step-00000004").string());
  EXPECT_FALSE(save.gave_up());
}

// A note that nobody reads is an error of the run, and what was saved is saved.
TEST_F(SavingTest, AnOutputThatBreaksIsNotTakenForTheDisk) {
  for (const std::int64_t step : {1, 2}) {
    on_note = [&] { throw IoError("nobody reads this"); };
    Saving save = saving(every_step);
    EXPECT_THROW(step == 1 ? save.save(state(step)) : save.save_finally(state(step)), IoError);
    EXPECT_EQ(notes.size(), 1u);
    EXPECT_EQ(save.last(), (folder / fmt::format("step-{:08}", step)).string());
    EXPECT_FALSE(save.gave_up());
    save.save_finally(state(step));
    EXPECT_EQ(notes.size(), 1u) << "saved a second time";
    EXPECT_FALSE(fs::exists(folder / "weights"));
    notes.clear();
  }
}

TEST_F(SavingTest, WithoutPatienceTheWeightsAreKeptAndTheErrorSaysWhere) {
  disk.set_room(bytes / 2);
  Saving save = saving(every_step);
  try {
    save.save_finally(state(4));
    FAIL() << "a full disk was not told";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("weights/step-00000004"));
  }
  EXPECT_TRUE(fs::exists(folder / "weights/step-00000004/model.safetensors"));
  EXPECT_EQ(save.last(), "");
  files::verify(disk, folder / "weights/step-00000004");
}

TEST_F(SavingTest, WhereNotEvenTheyFitTheErrorSaysThat) {
  disk.set_room(0);
  Saving save = saving(every_step);
  try {
    save.save_finally(state(4));
    FAIL() << "a full disk was not told";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), HasSubstr("Not even the weights"));
  }
  EXPECT_FALSE(fs::exists(folder / "weights")) << "left empty";
  EXPECT_EQ(disk.used(), 0);
}

TEST_F(SavingTest, AStepIsSavedOnce) {
  Saving save = saving(every_step);
  save.save_finally(state(4));
  notes.clear();
  save.save(state(4));
  save.save_finally(state(4));
  EXPECT_TRUE(notes.empty());
}

TEST_F(SavingTest, IsDueAsSettingsSay) {
  using Kind = SaveEvery::Kind;
  const auto due = [&](SaveEvery every, std::int64_t step) {
    SavingSettings settings = every_step;
    settings.every = every;
    return saving(settings).due(step);
  };
  EXPECT_TRUE(due({Kind::steps, 3}, 6));
  EXPECT_FALSE(due({Kind::steps, 3}, 7));
  EXPECT_TRUE(due({Kind::seconds, 1e-9}, 1));
  EXPECT_FALSE(due({Kind::seconds, 3600}, 1));
  EXPECT_FALSE(due({Kind::automatic}, 1));
  EXPECT_FALSE(due({Kind::end}, 1));
  EXPECT_FALSE(due({Kind::never}, 1));
}

}  // namespace
}  // namespace ebb::engine
