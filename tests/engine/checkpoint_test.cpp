// The promises: resume is exact, into any placement, and a save that fails costs nothing but
// itself.
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "engine/checkpointing.h"
#include "engine/small_runs.h"
#include "files/folder.h"
#include "io/fault_file_system.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"
#include "print.h"

namespace ebb::engine {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

struct Digests {
  std::string weights;
  std::string moments;
  bool operator==(const Digests&) const = default;
  friend std::ostream& operator<<(std::ostream& to, const Digests& digests) {
    return to << digests.weights << ' ' << digests.moments;
  }
};

Digests digests_of(TrainingRun& run) {
  return {run.store().weights_digest(), run.store().moments_digest()};
}

// Trains up to `step` from wherever the run is.
void train_to(TrainingRun& run, std::int64_t step) {
  while (run.steps_done() < step) run.step(made_up_batches(run.settings(), run.steps_done()));
  run.finish();
}

struct Placement {
  std::string name;
  plan::FixedChoices fixed;
};

std::vector<Placement> placements() {
  using enum plan::Site;
  const auto fixed = [](plan::Site site, double fraction, std::optional<double> host,
                        std::int64_t blocks, std::int64_t chunk) {
    return plan::FixedChoices{.site = site,
                              .offload_fraction = fraction,
                              .host_fraction = host,
                              .recompute_blocks = blocks,
                              .host_inputs = blocks,
                              .chunk_parameters = chunk};
  };
  return {{"resident", fixed(resident, 0, {}, 0, 8192)},
          {"stream", fixed(stream, 1, {}, 0, 8192)},
          {"host", fixed(host, 1, {}, 0, 8192)},
          {"a mix in small chunks", fixed(stream, 0.8, 0.4, 2, 4096)},
          {"half on the host in large chunks", fixed(host, 0.5, {}, 3, 1 << 20)}};
}

TrainingSettings settings_for(const Placement& placement, DType dtype = DType::bf16) {
  TrainingSettings settings = small_settings();
  settings.dtype = settings.gradient_type = dtype;
  settings.fixed = placement.fixed;
  return settings;
}

fs::path save(io::FileSystem& files, const fs::path& root, TrainingRun& run, int keep = 2) {
  return save_checkpoint(files, root, run.store(),
                         {.config = run.settings().config, .stored_config = {}, .copies = {}},
                         {.step = run.steps_done(),
                          .data_position = {.epoch = 1, .item = 2 * run.steps_done(), .token = 3},
                          .seed = 7,
                          .numerics_key = {{"test", true}}},
                         keep);
}

void load(io::FileSystem& files, const fs::path& folder, TrainingRun& run) {
  files::verify(files, folder);
  load_checkpoint(files, folder, run.settings().format, run.store());
  run.set_steps_done(files::read_training_state(files, folder).step);
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const IoError& error) {
    return error.what();
  }
  return "(no error)";
}

class CheckpointTest : public testing::TestWithParam<DType> {
 protected:
  io::TempFolder folder;
  io::PosixFileSystem files;
  fs::path root = folder / "run";
};

TEST_P(CheckpointTest, GoesOnToTheBitInEveryOtherPlacement) {
  Runtime runtime(test_device(), 2);
  for (const Placement& from : placements()) {
    TrainingRun unbroken(runtime, settings_for(from, GetParam()));
    initialize(unbroken);
    train_to(unbroken, 4);
    const Digests halfway = digests_of(unbroken);
    const fs::path saved = save(files, root / from.name, unbroken);
    EXPECT_EQ(digests_of(unbroken), halfway) << "a save changed the run";
    train_to(unbroken, 8);
    const Digests end = digests_of(unbroken);
    for (const Placement& to : placements()) {
      SCOPED_TRACE(fmt::format("from {} to {}", from.name, to.name));
      TrainingRun resumed(runtime, settings_for(to, GetParam()));
      load(files, saved, resumed);
      EXPECT_EQ(digests_of(resumed), halfway);
      train_to(resumed, 8);
      EXPECT_EQ(digests_of(resumed), end);
    }
  }
}

// Weights that are written after the optimizer's states exist leave no stale master behind.
TEST_P(CheckpointTest, WeightsWrittenLaterAreTheOnesThatAreTrained) {
  Runtime runtime(test_device(), 2);
  for (const Placement& placement : placements()) {
    SCOPED_TRACE(placement.name);
    const TrainingSettings settings = settings_for(placement, GetParam());
    TrainingRun fresh(runtime, settings);
    initialize(fresh, 11);
    train_to(fresh, 4);
    TrainingRun used(runtime, settings);
    initialize(used, 7);
    train_to(used, 3);
    EXPECT_NE(digests_of(used), digests_of(fresh));
    initialize(used, 11);
    used.set_steps_done(0);
    train_to(used, 4);
    EXPECT_EQ(digests_of(used), digests_of(fresh));
  }
}

INSTANTIATE_TEST_SUITE_P(All, CheckpointTest, testing::Values(DType::bf16, DType::f32),
                         [](const auto& info) { return std::string(name_of(info.param)); });

// A run with a published checkpoint of step 2, about to save step 3.
class FailedSaveTest : public testing::Test {
 protected:
  FailedSaveTest()
      : run(runtime, settings_for(placements()[3])), reader(reader_runtime, run.settings()) {
    initialize(run);
    train_to(run, 2);
    save(files, root, run);
    before = digests_of(run);
    train_to(run, 3);
    after = digests_of(run);
  }

  // What a resume would find, verified and loaded.
  Digests found() {
    const auto latest = files::latest_checkpoint(files, root);
    if (!latest) return {"none", "none"};
    load(files, *latest, reader);
    return digests_of(reader);
  }

  io::FaultFileSystem::Counts count_operations() {
    io::FaultFileSystem idle(files);
    fs::copy(root, folder / "copy", fs::copy_options::recursive);
    save(idle, folder / "copy", run, 1);
    return idle.counts();
  }

  io::TempFolder folder;
  io::PosixFileSystem files;
  fs::path root = folder / "run";
  Runtime runtime{"cpu", 2};
  Runtime reader_runtime{"cpu", 1};  // scratch and streams are bound to one run at a time
  TrainingRun run;
  TrainingRun reader;
  Digests before;
  Digests after;
};

TEST_F(FailedSaveTest, AFullOrBadDiskAtAnyWriteNamesTheFileAndKeepsTheLast) {
  const std::int64_t writes = count_operations().writes;
  ASSERT_GT(writes, 20);
  for (const auto& [code, advice] :
       {std::pair{ENOSPC, "Free space on that disk"}, std::pair{EIO, "check the disk"}}) {
    for (std::int64_t n = 1; n <= writes; ++n) {
      SCOPED_TRACE(fmt::format("write {} of {}: {}", n, writes, advice));
      io::FaultFileSystem fault(files);
      n % 2 == 0 ? fault.fail_write(n, code) : fault.cut_write(n, code);
      EXPECT_THAT(error_of([&] { save(fault, root, run, 1); }),
                  AllOf(HasSubstr((root / "step-00000003.partial").string()), HasSubstr("offset"),
                        HasSubstr(advice), HasSubstr("--out")));
      EXPECT_EQ(files.list(root).size(), 1u) << "the space was not given back";
      ASSERT_EQ(files::latest_checkpoint(files, root), root / "step-00000002");
      // Loading takes longer than verifying, and a save that failed in its middle is like another.
      if (n < 4 || n > writes - 4) {
        EXPECT_EQ(found(), before);
      }
      files::verify(files, root / "step-00000002");
    }
  }
  EXPECT_EQ(digests_of(run), after) << "a failed save changed the run";
  save(files, root, run, 1);
  EXPECT_EQ(found(), after);
}

TEST_F(FailedSaveTest, AFailedSyncOrRenameNamesTheFileAndKeepsACheckpoint) {
  const io::FaultFileSystem::Counts counts = count_operations();
  const auto try_one = [&](const std::function<void(io::FaultFileSystem&)>& order) {
    io::FaultFileSystem fault(files);
    order(fault);
    EXPECT_THAT(error_of([&] { save(fault, root, run, 2); }),
                AnyOf(AllOf(HasSubstr(root.string()), HasSubstr("check the disk")),
                      AllOf(HasSubstr(root.string()), HasSubstr("Free space"))));
    EXPECT_THAT(found(), AnyOf(before, after));
    // Back to where it began.
    files.remove_all(root / "step-00000003");
    EXPECT_EQ(found(), before);
  };
  // Those of keep_last, two syncs and a rename for the folder that goes, do not happen here, as two
  // are kept.
  for (const int code : {EIO, ENOSPC}) {
    for (std::int64_t n = 1; n <= counts.syncs - 2; ++n) {
      SCOPED_TRACE(fmt::format("sync {} of {}", n, counts.syncs));
      try_one([&](io::FaultFileSystem& fault) { fault.fail_sync(n, code); });
    }
    for (std::int64_t n = 1; n <= counts.renames - 1; ++n) {
      SCOPED_TRACE(fmt::format("rename {} of {}", n, counts.renames));
      try_one([&](io::FaultFileSystem& fault) { fault.fail_rename(n, code); });
    }
  }
}

TEST_F(FailedSaveTest, ACrashAtAnyOperationLeavesTheOldOrTheNewOne) {
  const std::int64_t operations = count_operations().operations;
  fs::copy(root, folder / "spare", fs::copy_options::recursive);
  bool old_one = false;
  bool new_one = false;
  for (std::int64_t n = 1; n <= operations; ++n) {
    SCOPED_TRACE(fmt::format("crash at operation {} of {}", n, operations));
    fs::remove_all(root);
    fs::copy(folder / "spare", root, fs::copy_options::recursive);
    io::FaultFileSystem fault(files, root);
    fault.crash_at(n);
    EXPECT_NE(error_of([&] { save(fault, root, run, 1); }), "(no error)");
    ASSERT_TRUE(fault.crashed());
    fault.after_each_loss([&](const std::string& what) {
      SCOPED_TRACE(what);
      const Digests now = found();
      EXPECT_THAT(now, AnyOf(before, after));
      old_one |= now == before;
      new_one |= now == after;
    });
  }
  EXPECT_TRUE(old_one && new_one);
}

TEST_F(FailedSaveTest, KeepsAsManyAsAreWanted) {
  for (std::int64_t step = 4; step <= 8; ++step) {
    train_to(run, step);
    save(files, root, run, 3);
  }
  std::vector<std::string> names;
  for (const fs::path& entry : files.list(root)) names.push_back(entry.filename().string());
  EXPECT_THAT(names, testing::ElementsAre("step-00000006", "step-00000007", "step-00000008"));
  EXPECT_EQ(found(), digests_of(run));
  EXPECT_EQ(files::read_training_state(files, root / "step-00000007").data_position,
            (text::DataPosition{.epoch = 1, .item = 14, .token = 3}));
}

TEST(TrainingState, OfAnEarlierEbbIsRefused) {
  const io::TempFolder folder;
  io::PosixFileSystem files;
  const auto refused = [&](std::string_view text) -> std::string {
    io::write_text_atomically(files, folder / "training.json", text);
    try {
      (void)files::read_training_state(files, folder / "");
    } catch (const FormatError& error) {
      return error.what();
    }
    return "(no error)";
  };
  EXPECT_THAT(
      refused(R"({"version": 1, "step": 3, "data_position": 14, "seed": 0, "numerics_key": {}})"),
      AllOf(HasSubstr("training.json"), HasSubstr("version 2, found 1"),
            HasSubstr("start a new one from its weights")));
  EXPECT_THAT(
      refused(R"({"version": 2, "step": 3, "data_position": 14, "seed": 0, "numerics_key": {}})"),
      AllOf(HasSubstr("training.json"), HasSubstr("data position"), HasSubstr("14")));
}

TEST_F(FailedSaveTest, AnotherModelsOrTypesCheckpointIsRefused) {
  TrainingSettings other = run.settings();
  other.config.intermediate = 128;
  TrainingRun wider(runtime, other);
  const auto refused = [&](TrainingRun& into) -> std::string {
    try {
      load(files, root / "step-00000002", into);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "(no error)";
  };
  EXPECT_THAT(refused(wider), AllOf(HasSubstr("model.safetensors"), HasSubstr("mlp"),
                                    HasSubstr("112"), HasSubstr("128")));
  TrainingRun floats(runtime, settings_for(placements()[0], DType::f32));
  EXPECT_THAT(refused(floats), AllOf(HasSubstr("BF16"), HasSubstr("--dtype")));
}

}  // namespace
}  // namespace ebb::engine
