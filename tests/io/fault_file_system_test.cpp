#include "io/fault_file_system.h"

#include <array>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"

namespace ebb::io {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const IoError& error) {
    return error.what();
  }
  return "(no error)";
}

class FaultFileSystemTest : public testing::Test {
 protected:
  static std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
  }

  TempFolder folder;
  PosixFileSystem posix;
  FaultFileSystem files{posix};
};

TEST_F(FaultFileSystemTest, CountsWhatChangesTheDisk) {
  files.make_directories(folder / "d");                  // make, sync the parent
  write_text_atomically(files, folder / "d/t", "text");  // create, write, sync, rename, sync folder
  read_text(files, folder / "d/t", 100);
  files.remove_all(folder / "d");  // the file, then the folder
  const FaultFileSystem::Counts counts = files.counts();
  EXPECT_EQ(counts.operations, 9);
  EXPECT_EQ(counts.writes, 1);
  EXPECT_EQ(counts.syncs, 3);
  EXPECT_EQ(counts.renames, 1);
}

TEST_F(FaultFileSystemTest, AFullDiskSaysWhatToDo) {
  files.fail_write(2, ENOSPC);
  const auto file = files.create(folder / "a");
  file->write(0, bytes_of("1234"));
  EXPECT_THAT(error_of([&] { file->write(4, bytes_of("5678")); }),
              AllOf(HasSubstr((folder / "a").string()), HasSubstr("offset 4"),
                    HasSubstr("wanted 4 bytes, got 0"), HasSubstr("No space left"),
                    HasSubstr("Free space"), HasSubstr("--out")));
  file->write(4, bytes_of("90"));
  EXPECT_EQ(read_text(posix, folder / "a", 100), "123490");
}

TEST_F(FaultFileSystemTest, ABadDiskSaysWhatToDo) {
  files.fail_write(1, EIO);
  EXPECT_THAT(error_of([&] { files.create(folder / "a")->write(0, bytes_of("1234")); }),
              AllOf(HasSubstr("Input/output error"), HasSubstr("check the disk")));
}

TEST_F(FaultFileSystemTest, AReadFailsOnDemand) {
  write_text_atomically(posix, folder / "a", "12345678");
  files.fail_read(2);
  const auto file = files.open(folder / "a");
  std::array<std::byte, 3> bytes{};
  file->read(0, bytes);
  EXPECT_THAT(error_of([&] { file->read(4, bytes); }),
              AllOf(HasSubstr((folder / "a").string()), HasSubstr("offset 4"),
                    HasSubstr("wanted 3 bytes, got 0"), HasSubstr("Input/output error")));
  file->read(4, bytes);
  EXPECT_EQ(bytes[0], std::byte{'5'});
  EXPECT_EQ(files.counts().reads, 3);
  EXPECT_EQ(files.counts().operations, 0);
}

TEST_F(FaultFileSystemTest, ACutWriteLeavesHalf) {
  files.cut_write(1, ENOSPC);
  EXPECT_THAT(error_of([&] { files.create(folder / "a")->write(0, bytes_of("12345678")); }),
              HasSubstr("wanted 8 bytes, got 4"));
  EXPECT_EQ(read_text(posix, folder / "a", 100), "1234");
}

TEST_F(FaultFileSystemTest, SyncsAndRenamesFailByOrder) {
  files.fail_sync(2);
  files.fail_rename(1);
  const auto file = files.create(folder / "a");
  file->sync();
  EXPECT_THAT(error_of([&] { file->sync(); }), HasSubstr("cannot sync"));
  EXPECT_THAT(error_of([&] { files.rename(folder / "a", folder / "b"); }),
              HasSubstr("rename to 'b'"));
  EXPECT_TRUE(posix.exists(folder / "a"));
}

TEST_F(FaultFileSystemTest, AfterACrashNothingChangesTheDisk) {
  files.crash_at(2);
  const auto file = files.create(folder / "a");
  EXPECT_THROW(file->write(0, bytes_of("1234")), IoError);
  EXPECT_TRUE(files.crashed());
  EXPECT_THROW(file->write(0, bytes_of("1234")), IoError);
  EXPECT_THROW(file->sync(), IoError);
  EXPECT_THROW(files.create(folder / "b"), IoError);
  EXPECT_THROW(files.rename(folder / "a", folder / "b"), IoError);
  EXPECT_THROW(files.remove_all(folder / "a"), IoError);
  EXPECT_THROW(files.make_directories(folder / "d"), IoError);
  EXPECT_EQ(read_text(files, folder / "a", 100), "12");
  EXPECT_EQ(posix.list(folder.path()).size(), 1u);
}

// The folder's files and their texts after each loss, folders with a slash.
std::map<std::string, std::string> after_each_loss(FaultFileSystem& files,
                                                   const TempFolder& folder) {
  std::map<std::string, std::string> found;
  files.after_each_loss([&](const std::string& what) {
    std::set<std::string> all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      PosixFileSystem posix;
      const std::string name = entry.path().lexically_relative(folder.path()).string();
      all.insert(name + (entry.is_directory() ? "/" : "=" + read_text(posix, entry.path(), 100)));
    }
    for (const std::string& each : all) found[what] += each + " ";
    found.try_emplace(what);
  });
  return found;
}

class LossTest : public FaultFileSystemTest {
 protected:
  void put(const std::string& name, std::string_view text, bool sync) {
    const auto file = watching.create(folder / name);
    file->write(0, bytes_of(text));
    if (sync) file->sync();
  }

  std::string now(const std::string& lost) {
    std::string what = "lost: " + lost;
    for (std::size_t at; (at = what.find("~")) != std::string::npos;) {
      what.replace(at, 1, folder.path().string());
    }
    const auto all = after_each_loss(watching, folder);
    const auto found = all.find(what);
    return found == all.end() ? "(no such loss: " + what + ")" : found->second;
  }

  FaultFileSystem watching{posix, folder.path()};
};

TEST_F(LossTest, TakesWhatWasNotSyncedAlsoAfterARename) {
  watching.make_directories(folder / "d");
  put("d/kept", "kept", true);
  put("d/lost", "lost", false);
  watching.sync_directory(folder / "d");
  watching.rename(folder / "d", folder / "e");
  EXPECT_EQ(now("no name"), "e/ e/kept=kept e/lost= ");
  EXPECT_EQ(now("all changes of names"), "d/ d/kept=kept d/lost= ");
  watching.sync_directory(folder.path());
  EXPECT_EQ(now("no name"), "e/ e/kept=kept e/lost= ");
  EXPECT_EQ(after_each_loss(watching, folder).size(), 1u);
}

TEST_F(LossTest, TakesNamesWhoseFolderWasNotSynced) {
  put("a", "a", true);
  watching.sync_directory(folder.path());
  put("b", "b", true);
  watching.remove_all(folder / "a");
  EXPECT_EQ(now("no name"), "b=b ");
  EXPECT_EQ(now("all changes of names"), "a=a ");
  EXPECT_EQ(now("remove '~/a'"), "a=a b=b ");
  EXPECT_EQ(now("create '~/b'"), "");
  watching.sync_directory(folder.path());
  EXPECT_EQ(now("no name"), "b=b ");
}

TEST_F(LossTest, MayTakeTheEarlierOfTwoChanges) {
  put("a", "new", true);
  put("b", "old", true);
  watching.sync_directory(folder.path());
  watching.rename(folder / "b", folder / "c");
  watching.rename(folder / "a", folder / "b");
  EXPECT_EQ(now("rename '~/b' to 'c'"), "b=new ");
  EXPECT_EQ(now("rename '~/a' to 'b'"), "a=new c=old ");
  EXPECT_EQ(now("no name"), "b=new c=old ");
}

TEST_F(LossTest, KnowsWhatWasThereBefore) {
  write_text_atomically(posix, folder / "old", "old");
  FaultFileSystem later(posix, folder.path());
  later.rename(folder / "old", folder / "new");
  const auto all = after_each_loss(later, folder);
  EXPECT_EQ(all.at("lost: no name"), "new=old ");
  EXPECT_EQ(all.at("lost: all changes of names"), "old=old ");
}

TEST_F(LossTest, NeedsAFolderToWatch) {
  EXPECT_THROW(files.after_each_loss([](const std::string&) {}), ConfigError);
}

TEST_F(FaultFileSystemTest, FoldersAreThereForGoodOnReturn) {
  for (std::int64_t n = 1;; ++n) {
    SCOPED_TRACE(testing::Message() << "crash at operation " << n);
    posix.remove_all(folder / "a");
    FaultFileSystem fault(posix, folder.path());
    fault.crash_at(n);
    error_of([&] { fault.make_directories(folder / "a/b/c"); });
    fault.after_each_loss([&](const std::string& what) {
      SCOPED_TRACE(what);
      EXPECT_TRUE(fault.crashed() || posix.is_directory(folder / "a/b/c"));
    });
    if (!fault.crashed()) break;
  }
}

TEST_F(FaultFileSystemTest, AtomicTextIsOldOrNewAtEveryCrashAndNewOnReturn) {
  for (std::int64_t n = 1;; ++n) {
    SCOPED_TRACE(testing::Message() << "crash at operation " << n);
    write_text_atomically(posix, folder / "t", "old text");
    FaultFileSystem fault(posix, folder.path());
    fault.crash_at(n);
    error_of([&] { write_text_atomically(fault, folder / "t", "new text"); });
    fault.after_each_loss([&](const std::string& what) {
      SCOPED_TRACE(what);
      const std::string found = read_text(posix, folder / "t", 100);
      EXPECT_TRUE(found == "new text" || (fault.crashed() && found == "old text")) << found;
    });
    if (!fault.crashed()) break;
  }
}

}  // namespace
}  // namespace ebb::io
