#include "checkpoint/folder.h"

#include <fstream>
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoint/safetensors.h"
#include "ebb/error.h"
#include "io/fault_file_system.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"

namespace ebb::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

// A checkpoint as training writes one: tensors in pieces, a JSON file, and a file whose writer
// forgot to sync. `flavor` tells two saves of one step apart.
void save(io::FileSystem& files, const fs::path& root, std::int64_t step,
          const std::string& flavor) {
  CheckpointWriter writer(files, root, step);
  const std::string data(64, flavor.front());
  SafetensorsWriter weights(files, writer.path("weights.safetensors"),
                            {{"a", StoredType::bf16, {4, 4}}, {"b", StoredType::f32, {8}}});
  weights.write(std::as_bytes(std::span(data)).first(40));
  weights.write(std::as_bytes(std::span(data)).subspan(40));
  const WrittenFile written = weights.finish();
  writer.add_file("weights.safetensors", written.bytes, written.digest);
  writer.write_json("run.json", {{"step", step}, {"flavor", flavor}});
  files.create(writer.path("notes.txt"))->write(0, std::as_bytes(std::span(flavor)));
  Digest digest;
  digest.add(std::as_bytes(std::span(flavor)));
  writer.add_file("notes.txt", static_cast<Bytes>(flavor.size()), digest.hex());
  writer.publish();
}

class FolderTest : public testing::Test {
 protected:
  // "step flavor" of the latest checkpoint after it was verified; "none" without one.
  std::string latest() {
    const std::optional<fs::path> folder = latest_checkpoint(files, root);
    if (!folder) return "none";
    verify(files, *folder);
    const auto run = nlohmann::json::parse(io::read_text(files, *folder / "run.json", 1000));
    const SafetensorsReader weights(files, *folder / "weights.safetensors");
    EXPECT_NE(weights.find("a"), nullptr);
    return fmt::format("{} {}", run["step"].get<int>(), run["flavor"].get<std::string>());
  }

  std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const fs::path& entry : files.list(root)) found.push_back(entry.filename().string());
    return found;
  }

  // Runs `act` on `prepare`d files once for every operation it does, with a crash and a loss of
  // what was not synced there, and lets `check` look at the disk.
  void crash_everywhere(const std::function<void()>& prepare,
                        const std::function<void(io::FileSystem&)>& act,
                        const std::function<void()>& check) {
    for (std::int64_t n = 1;; ++n) {
      SCOPED_TRACE(fmt::format("crash at operation {}", n));
      files.remove_all(root);
      prepare();
      io::FaultFileSystem fault(files);
      fault.crash_at(n);
      error_of([&] { act(fault); });
      fault.lose_unsynced();
      check();
      if (!fault.crashed()) {
        EXPECT_GT(n, 5) << "hardly anything was done";
        return;
      }
    }
  }

  io::TempFolder folder;
  io::PosixFileSystem files;
  fs::path root = folder / "run";
};

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
                   [&] {
                     EXPECT_THAT(latest(), testing::AnyOf("10 x", "20 y"));
                     save(files, root, 20, "z");
                     EXPECT_EQ(latest(), "20 z");
                     EXPECT_THAT(names(), testing::ElementsAre("step-00000010", "step-00000020"));
                   });
  EXPECT_EQ(latest(), "20 z");
}

TEST_F(FolderTest, ACrashInTheFirstSaveLeavesNothingOrIt) {
  crash_everywhere([] {}, [&](io::FileSystem& fault) { save(fault, root, 20, "y"); },
                   [&] { EXPECT_THAT(latest(), testing::AnyOf("none", "20 y")); });
  EXPECT_EQ(latest(), "20 y");
}

TEST_F(FolderTest, ACrashWhileReplacingLeavesTheOldOrTheNewOne) {
  crash_everywhere([&] { save(files, root, 20, "x"); },
                   [&](io::FileSystem& fault) { save(fault, root, 20, "y"); },
                   [&] {
                     EXPECT_THAT(latest(), testing::AnyOf("20 x", "20 y"));
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
    io::FaultFileSystem fault(files);
    fault.crash_at(first);
    error_of([&] { save(fault, root, 20, "y"); });
    fault.lose_unsynced();
    if (!fault.crashed()) break;
    const fs::path after_first = folder / "after-first";
    fs::remove_all(after_first);
    fs::copy(root, after_first, fs::copy_options::recursive);
    const std::string before = latest();
    // A save has no more operations than this, the removal of what two crashes left included.
    for (std::int64_t second = 1; second <= 40; ++second) {
      SCOPED_TRACE(fmt::format("second crash at operation {}", second));
      fs::remove_all(root);
      fs::copy(after_first, root, fs::copy_options::recursive);
      io::FaultFileSystem again(files);
      again.crash_at(second);
      error_of([&] { save(again, root, 20, "z"); });
      again.lose_unsynced();
      EXPECT_THAT(latest(), testing::AnyOf(before, "20 z"));
      if (!again.crashed()) break;
      ASSERT_LT(second, 40);
    }
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
  for (const char* name :
       {"", ".", "..", "a/b", "../a", "/a", ".hidden", "manifest.json", "a\nb", "a\x7f"}) {
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
  fs::create_directory(root / "step-00000006.partial");
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
      [&] {
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

class VerifyTest : public FolderTest {
 protected:
  void SetUp() override {
    save(files, root, 10, "x");
    save(files, root, 20, "y");
  }

  void put(const fs::path& path, const std::string& text) {
    files.create(path)->write(0, std::as_bytes(std::span(text)));
  }

  fs::path checkpoint = root / "step-00000020";
};

TEST_F(VerifyTest, FindsEveryFlippedByte) {
  verify(files, checkpoint);
  verify(files, checkpoint / "");
  for (const char* name : {"weights.safetensors", "run.json", "notes.txt"}) {
    const std::string whole = io::read_text(files, checkpoint / name, 10000);
    for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 20) {
      std::string text = whole;
      text[at] = static_cast<char>(text[at] ^ 4);
      put(checkpoint / name, text);
      EXPECT_THAT(error_of([&] { verify(files, checkpoint); }),
                  AllOf(HasSubstr((checkpoint / name).string()), HasSubstr("expected the XXH3"),
                        HasSubstr("Resume from an older checkpoint"),
                        HasSubstr((root / "step-00000010").string())))
          << "byte " << at;
    }
    put(checkpoint / name, whole);
  }
  verify(files, checkpoint);
}

TEST_F(VerifyTest, FindsCutAndMissingFiles) {
  put(checkpoint / "run.json", "{}");
  EXPECT_THAT(error_of([&] { verify(files, checkpoint); }),
              AllOf(HasSubstr("run.json' is damaged"), HasSubstr("found 2")));
  files.remove_all(checkpoint / "run.json");
  EXPECT_THAT(error_of([&] { verify(files, checkpoint); }), HasSubstr("found none"));
  files.remove_all(checkpoint / "manifest.json");
  EXPECT_THAT(error_of([&] { verify(files, checkpoint); }), HasSubstr("expected a manifest"));
}

TEST_F(VerifyTest, SaysWhereThereIsNoOlderOne) {
  put(root / "step-00000010" / "run.json", "{}");
  EXPECT_THAT(error_of([&] { verify(files, root / "step-00000010"); }),
              HasSubstr("no older checkpoint"));
}

TEST_F(VerifyTest, RefusesAManifestOfAnotherStep) {
  fs::rename(checkpoint, root / "step-00000030");
  EXPECT_THAT(error_of([&] { verify(files, root / "step-00000030"); }),
              HasSubstr("expected step 30, found step 20"));
  fs::rename(root / "step-00000030", root / "best");
  verify(files, root / "best");
}

TEST_F(VerifyTest, ACutManifestIsAnError) {
  const std::string whole = io::read_text(files, checkpoint / "manifest.json", 10000);
  for (std::size_t bytes = 0; bytes + 1 < whole.size(); bytes += 7) {
    files.remove_all(checkpoint / "manifest.json");
    put(checkpoint / "manifest.json", whole.substr(0, bytes));
    EXPECT_THROW(verify(files, checkpoint), FormatError) << "cut to " << bytes;
  }
}

TEST_F(VerifyTest, RefusesMalformedManifests) {
  const std::string head = R"({"format":"ebb-checkpoint","version":1,"step":20,"files":)";
  const std::string file = R"({"name":"a","bytes":0,"xxh3":"0123456789abcdef0123456789abcdef"})";
  const std::pair<std::string, const char*> malformed[] = {
      {"", "expected JSON"},
      {"\xff", "expected JSON"},
      {std::string(100000, '['), "nested deeper than"},
      {"[]", "expected an object"},
      {"{}", "expected 'format'"},
      {R"({"format":"other"})", "ebb-checkpoint"},
      {R"({"format":"ebb-checkpoint","version":2})", "version 2"},
      {R"({"format":"ebb-checkpoint","version":1,"step":-1})", "'step'"},
      {R"({"format":"ebb-checkpoint","version":1,"step":1e99})", "'step'"},
      {R"({"format":"ebb-checkpoint","version":1,"step":18446744073709551615})", "'step'"},
      {head + "{}}", "a list of files"},
      {head + "[1]}", "an object for each file"},
      {head + R"([{"name":1,"bytes":0,"xxh3":""}]})", "'name' to be a text"},
      {head + R"([{"name":"../../etc/passwd","bytes":0,"xxh3":""}]})", "a plain file name"},
      {head + R"([{"name":"a","bytes":-1,"xxh3":""}]})", "'bytes'"},
      {head + R"([{"name":"a","bytes":0}]})", "'xxh3'"},
      {head + R"([{"name":"a","bytes":0,"xxh3":"\u001b[2J"}]})", "a digest"},
      {head + "[" + file + "," + file + "]}", "twice"},
  };
  for (const auto& [text, error] : malformed) {
    put(checkpoint / "manifest.json", text);
    EXPECT_THAT(error_of([&] { read_manifest(files, checkpoint); }),
                AllOf(HasSubstr(error), HasSubstr("manifest.json"), HasSubstr("--resume")))
        << text.substr(0, 100);
  }
}

}  // namespace
}  // namespace ebb::checkpoint
