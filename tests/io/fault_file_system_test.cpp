#include "io/fault_file_system.h"

#include <functional>

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
  files.make_directories(folder / "d");
  write_text_atomically(files, folder / "d/t", "text");  // create, write, sync, rename, sync folder
  read_text(files, folder / "d/t", 100);
  files.remove_all(folder / "d");  // the file, then the folder
  const FaultFileSystem::Counts counts = files.counts();
  EXPECT_EQ(counts.operations, 8);
  EXPECT_EQ(counts.writes, 1);
  EXPECT_EQ(counts.syncs, 2);
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

TEST_F(FaultFileSystemTest, LosesWhatWasNotSyncedAlsoAfterARename) {
  files.make_directories(folder / "d");
  const auto kept = files.create(folder / "d/kept");
  kept->write(0, bytes_of("kept"));
  kept->sync();
  files.create(folder / "d/lost")->write(0, bytes_of("lost"));
  files.create(folder / "dd")->write(0, bytes_of("lost too"));
  files.rename(folder / "d", folder / "e");
  files.lose_unsynced();
  EXPECT_EQ(read_text(posix, folder / "e/kept", 100), "kept");
  EXPECT_EQ(read_text(posix, folder / "e/lost", 100), "");
  EXPECT_EQ(read_text(posix, folder / "dd", 100), "");
}

TEST_F(FaultFileSystemTest, AtomicTextIsOldOrNewAtEveryCrash) {
  for (std::int64_t n = 1;; ++n) {
    SCOPED_TRACE(testing::Message() << "crash at operation " << n);
    write_text_atomically(posix, folder / "t", "old text");
    FaultFileSystem fault(posix);
    fault.crash_at(n);
    error_of([&] { write_text_atomically(fault, folder / "t", "new text"); });
    fault.lose_unsynced();
    EXPECT_THAT(read_text(posix, folder / "t", 100), testing::AnyOf("old text", "new text"));
    if (!fault.crashed()) break;
  }
  EXPECT_EQ(read_text(posix, folder / "t", 100), "new text");
}

}  // namespace
}  // namespace ebb::io
