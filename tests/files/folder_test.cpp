#include "files/folder.h"

#include "files/made_checkpoints.h"

namespace ebb::files {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST_F(FolderTest, PublishesFilesAndManifest) {
  EXPECT_EQ(latest_checkpoint(files, root), std::nullopt);
  save(files, root, 20, "x");
  EXPECT_EQ(latest(), "20 x");
  EXPECT_THAT(names(), testing::ElementsAre("step-00000020"));
  const Manifest manifest = read_manifest(files, root / "step-00000020");
  EXPECT_EQ(manifest.version, kManifestVersion);
  EXPECT_EQ(manifest.step, 20);
  ASSERT_EQ(manifest.files.size(), 3u);
  EXPECT_EQ(manifest.files[0].name, "weights.safetensors");
  EXPECT_EQ(manifest.files[0].bytes,
            static_cast<Bytes>(fs::file_size(root / "step-00000020" / "weights.safetensors")));
  EXPECT_EQ(manifest.files[0].digest.size(), 32u);
}

TEST_F(FolderTest, LatestIsTheHighestPublishedStep) {
  save(files, root, 9, "x");
  save(files, root, 100, "x");
  save(files, root, 20, "x");
  save(files, root, 123456789, "x");
  EXPECT_EQ(latest(), "123456789 x");
  fs::rename(root / "step-123456789", root / "step-123456789.partial");
  EXPECT_EQ(latest(), "100 x");
  fs::rename(root / "step-00000100", root / "step-00000100.old");
  EXPECT_EQ(latest(), "100 x");
  for (const char* name : {"step-200", "step-0000000200", "step-00000200x", "step--0000200",
                           "step-99999999999999999999", "step-00000200.old.partial", "step-"}) {
    fs::copy(root / "step-00000020", root / name);
  }
  fs::create_directory(root / "step-00000300");
  std::ofstream(root / "step-00000400") << "a file";
  EXPECT_EQ(latest(), "100 x");
}

TEST_F(FolderTest, ACrashInASaveLeavesTheOldOrTheNewOne) {
  crash_everywhere([&] { save(files, root, 10, "x"); },
                   [&](io::FileSystem& fault) { save(fault, root, 20, "y"); },
                   [&](bool ended) {
                     EXPECT_THAT(latest(), ended ? testing::AnyOf("20 y", "20 y")
                                                 : testing::AnyOf("10 x", "20 y"));
                     save(files, root, 20, "z");
                     EXPECT_EQ(latest(), "20 z");
                     EXPECT_THAT(names(), testing::ElementsAre("step-00000010", "step-00000020"));
                   });
  EXPECT_EQ(latest(), "20 z");
}

TEST_F(FolderTest, ACrashInTheFirstSaveLeavesNothingOrIt) {
  crash_everywhere([] {}, [&](io::FileSystem& fault) { save(fault, root, 20, "y"); },
                   [&](bool ended) {
                     EXPECT_THAT(latest(), ended ? testing::AnyOf("20 y", "20 y")
                                                 : testing::AnyOf("none", "20 y"));
                     save(files, root, 20, "z");
                     EXPECT_EQ(latest(), "20 z");
                   });
}

TEST_F(FolderTest, ACrashWhileReplacingLeavesTheOldOrTheNewOne) {
  crash_everywhere([&] { save(files, root, 20, "x"); },
                   [&](io::FileSystem& fault) { save(fault, root, 20, "y"); },
                   [&](bool ended) {
                     EXPECT_THAT(latest(), ended ? testing::AnyOf("20 y", "20 y")
                                                 : testing::AnyOf("20 x", "20 y"));
                     save(files, root, 20, "z");
                     EXPECT_EQ(latest(), "20 z");
                     EXPECT_THAT(names(), testing::ElementsAre("step-00000020"));
                   });
}

TEST_F(FolderTest, TwoCrashesWhileReplacingLeaveTheOldOrTheNewOne) {
  for (std::int64_t first = 1;; ++first) {
    SCOPED_TRACE(fmt::format("first crash at operation {}", first));
    files.remove_all(root);
    save(files, root, 20, "x");
    io::FaultFileSystem fault(files, root);
    fault.crash_at(first);
    error_of([&] { save(fault, root, 20, "y"); });
    if (!fault.crashed()) break;
    const auto crash_again = [&](const std::string& first_loss) {
      SCOPED_TRACE(first_loss);
      const fs::path after_first = folder / "after-first";
      fs::remove_all(after_first);
      fs::copy(root, after_first, fs::copy_options::recursive);
      const std::string before = latest();
      // Each fourth, from another one on each time. A save has no more operations than this, the
      // removal of what two crashes left included.
      for (std::int64_t second = 1 + first % 4;; second += 4) {
        SCOPED_TRACE(fmt::format("second crash at operation {}", second));
        fs::remove_all(root);
        fs::copy(after_first, root, fs::copy_options::recursive);
        io::FaultFileSystem again(files, root);
        again.crash_at(second);
        error_of([&] { save(again, root, 20, "z"); });
        const auto check = [&](const std::string& second_loss) {
          SCOPED_TRACE(second_loss);
          EXPECT_THAT(latest(), testing::AnyOf(before, "20 z"));
        };
        again.after_each_loss(check, false);
        if (!again.crashed() || HasFailure()) break;
        ASSERT_LT(second, 60);
      }
    };
    fault.after_each_loss(crash_again, false);
    if (HasFailure()) break;
  }
}

TEST_F(FolderTest, AFullOrBadDiskAtAnyWriteKeepsTheLastCheckpoint) {
  save(files, root, 10, "x");
  io::FaultFileSystem idle(files);
  save(idle, folder / "other", 20, "y");
  ASSERT_GE(idle.counts().writes, 6);
  using Order = std::function<void(io::FaultFileSystem&, std::int64_t)>;
  const std::pair<Order, const char*> orders[] = {
      {[](auto& fault, auto n) { fault.fail_write(n, ENOSPC); }, "Free space"},
      {[](auto& fault, auto n) { fault.cut_write(n, ENOSPC); }, "Free space"},
      {[](auto& fault, auto n) { fault.fail_write(n, EIO); }, "check the disk"},
      {[](auto& fault, auto n) { fault.cut_write(n, EIO); }, "check the disk"},
  };
  for (const auto& [order, advice] : orders) {
    for (std::int64_t n = 1; n <= idle.counts().writes; ++n) {
      SCOPED_TRACE(fmt::format("write {}: {}", n, advice));
      io::FaultFileSystem fault(files);
      order(fault, n);
      EXPECT_THAT(error_of([&] { save(fault, root, 20, "y"); }),
                  AllOf(HasSubstr((root / "step-00000020.partial").string()), HasSubstr("offset"),
                        HasSubstr(advice), HasSubstr("--out")));
      EXPECT_EQ(latest(), "10 x");
      EXPECT_THAT(names(), testing::ElementsAre("step-00000010")) << "the space was not given back";
    }
  }
}

TEST_F(FolderTest, AFailedSyncOrRenameKeepsACheckpoint) {
  io::FaultFileSystem idle(files);
  save(idle, root, 20, "x");
  save(idle, root, 20, "x");
  for (std::int64_t n = 1; n <= idle.counts().syncs; ++n) {
    SCOPED_TRACE(fmt::format("sync or rename {}", n));
    io::FaultFileSystem syncs(files);
    syncs.fail_sync(n);
    error_of([&] { save(syncs, root, 20, "y"); });
    EXPECT_THAT(latest(), testing::AnyOf("20 x", "20 y"));
    save(files, root, 20, "x");
    io::FaultFileSystem renames(files);
    renames.fail_rename(n);
    error_of([&] { save(renames, root, 20, "y"); });
    EXPECT_THAT(latest(), testing::AnyOf("20 x", "20 y"));
    save(files, root, 20, "x");
    EXPECT_EQ(latest(), "20 x");
  }
}

TEST_F(FolderTest, ASaveThatWasGivenUpLeavesNothing) {
  {
    CheckpointWriter writer(files, root, 20);
    writer.write_json("run.json", {});
    EXPECT_THAT(names(), testing::ElementsAre("step-00000020.partial"));
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(FolderTest, TheWriterChecksNamesAndSizes) {
  CheckpointWriter writer(files, root, 20);
  for (const char* name : {"", ".", "..", "a/b", "../a", "/a", ".hidden", "manifest.json",
                           "ebb-manifest.partial", "a\nb", "a\x7f"}) {
    EXPECT_THROW(writer.path(name), FormatError) << name;
    EXPECT_THROW(writer.add_file(name, 0, ""), FormatError) << name;
  }
  writer.write_json("run.json", {{"a", 1}});
  EXPECT_THROW(writer.add_file("run.json", 1, ""), FormatError);
  EXPECT_THROW(writer.write_json("bad.json", {{"a", "\xff"}}), FormatError);
  files.create(writer.path("short"));
  writer.add_file("short", 5, "");
  EXPECT_THAT(error_of([&] { writer.publish(); }), HasSubstr("expected 5 bytes, found 0"));
  EXPECT_EQ(latest_checkpoint(files, root), std::nullopt);
  EXPECT_THROW(CheckpointWriter(files, root, -1), ConfigError);
}

TEST_F(FolderTest, KeepLastRemovesOlderOnesAndLeftovers) {
  for (int step = 1; step <= 5; ++step) save(files, root, step, "x");
  fs::copy(root / "step-00000005", root / "step-00000005.old");
  fs::create_directory(root / "step-00000006.partial");  // as a crash leaves it
  fs::create_directory(root / "step-00000007.partial");
  files.create(root / "step-00000007.partial" / kDraftName);
  files.create(root / "step-00000007.partial" / "model.safetensors");
  fs::create_directory(root / "mine");
  keep_last(files, root, 2);
  EXPECT_THAT(names(), testing::ElementsAre("mine", "step-00000004", "step-00000005"));
  keep_last(files, root, 7);
  EXPECT_EQ(names().size(), 3u);
  EXPECT_THROW(keep_last(files, root, 0), ConfigError);
  keep_last(files, folder / "no-such-root", 1);
}

TEST_F(FolderTest, ACrashInKeepLastLeavesOnlyGoodOnes) {
  crash_everywhere(
      [&] {
        for (int step = 1; step <= 3; ++step) save(files, root, step, "x");
        // Replaced ones that a crash kept, of steps that go and that stay.
        fs::copy(root / "step-00000001", root / "step-00000001.old");
        fs::copy(root / "step-00000003", root / "step-00000003.old");
      },
      [&](io::FileSystem& fault) { keep_last(fault, root, 1); },
      [&](bool) {
        EXPECT_EQ(latest(), "3 x");
        for (const fs::path& entry : files.list(root)) {
          const std::string name = entry.filename().string();
          // An ".old" counts only where the folder it was is not there.
          const bool shadowed = name.ends_with(".old") && files.exists(root / name.substr(0, 13));
          if (!name.ends_with(".partial") && !shadowed) verify(files, entry);
        }
        keep_last(files, root, 1);
        EXPECT_THAT(names(), testing::ElementsAre("step-00000003"));
      });
}

// Somebody's own folder or file of a name that Ebb would give.
class ForeignFolderTest : public FolderTest {
 protected:
  static constexpr const char* kKinds[] = {"a file", "a folder", "another manifest",
                                           "a damaged manifest", "a link to a checkpoint"};

  void make(const std::string& kind, const fs::path& path) {
    files.make_directories(root);
    if (kind == "a file") {
      std::ofstream(path) << "mine";
      return;
    }
    if (kind == "a link to a checkpoint") {
      save(files, folder / "elsewhere", 1, "mine");
      fs::create_directory_symlink(folder / "elsewhere" / "step-00000001", path);
      return;
    }
    files.make_directories(path);
    std::ofstream(path / "thesis.txt") << "mine";
    if (kind == "another manifest") std::ofstream(path / kManifestName) << R"({"name":"mine"})";
    if (kind == "a damaged manifest") std::ofstream(path / kManifestName) << "{\"format\":\"ebb-";
  }

  // Whether all of it is still there under its name.
  bool is_whole(const std::string& kind, const fs::path& path) {
    if (kind == "a file") return io::read_text(files, path, 100) == "mine";
    if (kind == "a link to a checkpoint") {
      verify(files, folder / "elsewhere" / "step-00000001");
      return fs::is_symlink(path);
    }
    return io::read_text(files, path / "thesis.txt", 100) == "mine" &&
           files.list(path).size() == (kind == "a folder" ? 1u : 2u);
  }
};

TEST_F(ForeignFolderTest, ASaveRefusesToTouchIt) {
  for (const std::string kind : kKinds) {
    for (const char* name : {"step-00000020", "step-00000020.partial", "step-00000020.old"}) {
      SCOPED_TRACE(kind + ", " + name);
      files.remove_all(root);
      save(files, root, 10, "x");
      make(kind, root / name);
      EXPECT_THAT(error_of([&] { save(files, root, 20, "y"); }),
                  AllOf(HasSubstr((root / name).string() + "' is in the way"), HasSubstr("--out")));
      EXPECT_TRUE(is_whole(kind, root / name));
      EXPECT_THAT(names(), testing::ElementsAre("step-00000010", name));
      EXPECT_THAT(error_of([&] { check_names_free(files, root, 10); }), HasSubstr("in the way"));
      check_names_free(files, root, 20);
    }
  }
  check_names_free(files, folder / "no-such-root", 0);
}

TEST_F(ForeignFolderTest, KeepLastNeitherRemovesNorCountsIt) {
  for (const std::string kind : kKinds) {
    for (const char* name : {"step-00000020", "step-00000020.partial", "step-00000020.old",
                             "step-00000005", "step-00000005.partial", "step-00000005.old"}) {
      SCOPED_TRACE(kind + ", " + name);
      files.remove_all(root);
      for (const int step : {8, 9, 10}) save(files, root, step, "x");
      make(kind, root / name);
      keep_last(files, root, 2);
      EXPECT_TRUE(is_whole(kind, root / name));
      std::vector<std::string> expected = {"step-00000009", "step-00000010", name};
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(names(), expected);
    }
  }
}

// A checkpoint can only go by way of its ".partial".
TEST_F(ForeignFolderTest, ACheckpointWithOneInItsWayStays) {
  for (const int step : {8, 9, 10}) save(files, root, step, "x");
  make("a folder", root / "step-00000008.partial");
  keep_last(files, root, 1);
  EXPECT_TRUE(is_whole("a folder", root / "step-00000008.partial"));
  EXPECT_THAT(names(),
              testing::ElementsAre("step-00000008", "step-00000008.partial", "step-00000010"));
  verify(files, root / "step-00000008");
}

}  // namespace
}  // namespace ebb::files
