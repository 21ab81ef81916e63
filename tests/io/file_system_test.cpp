// The contract every FileSystem keeps.
#include "io/file_system.h"

#include <sys/stat.h>

#include <functional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "io/fault_file_system.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"

namespace ebb::io {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

struct Posix {
  PosixFileSystem files;
};

struct IdleFault {
  PosixFileSystem wrapped;
  FaultFileSystem files{wrapped};
};

template <class Kind>
class FileSystemContract : public testing::Test {
 protected:
  TempFolder folder;
  Kind kind;
  FileSystem& files = kind.files;
};

using Kinds = testing::Types<Posix, IdleFault>;
TYPED_TEST_SUITE(FileSystemContract, Kinds);

TYPED_TEST(FileSystemContract, TellsFilesFromFoldersAndLinks) {
  const auto& folder = this->folder;
  this->files.create(folder / "file");
  this->files.make_directory(folder / "folder");
  std::filesystem::create_symlink("file", folder / "to_file");
  std::filesystem::create_symlink("folder", folder / "to_folder");
  std::filesystem::create_symlink("nothing", folder / "to_nothing");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto kinds = [&](const char* name) {
    const auto path = folder / name;
    return std::string(this->files.is_file(path) ? "file " : "") +
           (this->files.is_directory(path) ? "folder " : "") +
           (this->files.is_link(path) ? "link" : "");
  };
  EXPECT_EQ(kinds("file"), "file ");
  EXPECT_EQ(kinds("folder"), "folder ");
  EXPECT_EQ(kinds("to_file"), "file link");
  EXPECT_EQ(kinds("to_folder"), "folder link");
  EXPECT_EQ(kinds("to_nothing"), "link");
  EXPECT_EQ(kinds("nothing"), "");
  EXPECT_EQ(kinds("pipe"), "");
}

TYPED_TEST(FileSystemContract, AStampTellsWhetherAFileWasWrittenTo) {
  const auto path = this->folder / "a";
  const auto file = this->files.create(path);
  file->write(0, bytes_of("abc"));
  std::filesystem::last_write_time(path, std::filesystem::file_time_type{});
  const FileStamp before = file->stamp();
  EXPECT_EQ(before.size, 3);
  EXPECT_EQ(this->files.open(path)->stamp(), before);
  file->write(0, bytes_of("x"));
  EXPECT_NE(file->stamp(), before);
}

TYPED_TEST(FileSystemContract, WritesAndReadsAtAnyOffset) {
  const auto file = this->files.create(this->folder / "a");
  file->write(3, bytes_of("def"));
  file->write(0, bytes_of("abc"));
  file->sync();
  EXPECT_EQ(file->size(), 6);
  EXPECT_EQ(file->path(), this->folder / "a");

  std::string text(4, '?');
  this->files.open(this->folder / "a")->read(1, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text, "bcde");
}

TYPED_TEST(FileSystemContract, ReadPastTheEndNamesPathOffsetWantedAndGot) {
  const auto file = this->files.create(this->folder / "short");
  file->write(0, bytes_of("abcdef"));
  std::string text(10, '?');
  const std::string error =
      error_of([&] { file->read(2, std::as_writable_bytes(std::span(text))); });
  EXPECT_THAT(error, HasSubstr((this->folder / "short").string()));
  EXPECT_THAT(error, HasSubstr("offset 2: wanted 10 bytes, got 4"));
  EXPECT_THAT(error, HasSubstr("get it again"));
}

TYPED_TEST(FileSystemContract, NothingToMoveIsNoFailure) {
  const auto file = this->files.create(this->folder / "empty");
  file->write(7, {});
  file->read(7, {});
  EXPECT_EQ(file->size(), 0);
}

TYPED_TEST(FileSystemContract, CreateCutsWhatWasThere) {
  this->files.create(this->folder / "a")->write(0, bytes_of("something"));
  EXPECT_EQ(this->files.create(this->folder / "a")->size(), 0);
}

TYPED_TEST(FileSystemContract, AFileOpenedForReadingRefusesWrites) {
  this->files.create(this->folder / "a");
  EXPECT_THROW(this->files.open(this->folder / "a")->write(0, bytes_of("x")), IoError);
}

TYPED_TEST(FileSystemContract, AFileOpenedForReadingCanBeSynced) {
  this->files.create(this->folder / "a")->write(0, bytes_of("x"));
  this->files.open(this->folder / "a")->sync();
}

TYPED_TEST(FileSystemContract, OpensRegularFilesOnly) {
  EXPECT_THAT(error_of([&] { this->files.open(this->folder / "missing"); }),
              HasSubstr("missing': No such file"));
  EXPECT_THAT(error_of([&] { this->files.open(this->folder.path()); }),
              HasSubstr("not a regular file"));
  ASSERT_EQ(::mkfifo((this->folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { this->files.open(this->folder / "pipe"); }),
              HasSubstr("not a regular file"));
}

TYPED_TEST(FileSystemContract, ListsSortedAndTellsFoldersFromFiles) {
  this->files.create(this->folder / "b");
  this->files.create(this->folder / "c");
  this->files.make_directories(this->folder / "a" / "deep" / "er");
  EXPECT_THAT(this->files.list(this->folder.path()),
              ElementsAre(this->folder / "a", this->folder / "b", this->folder / "c"));
  EXPECT_TRUE(this->files.is_directory(this->folder / "a" / "deep" / "er"));
  EXPECT_FALSE(this->files.is_directory(this->folder / "b"));
  EXPECT_FALSE(this->files.is_directory(this->folder / "none"));
  EXPECT_TRUE(this->files.exists(this->folder / "b"));
  EXPECT_FALSE(this->files.exists(this->folder / "none"));
  EXPECT_FALSE(this->files.exists(this->folder / "b" / "below-a-file"));
  EXPECT_THROW(this->files.list(this->folder / "none"), IoError);
}

TYPED_TEST(FileSystemContract, MakesFoldersTwiceAndWithATrailingSlash) {
  this->files.make_directories(this->folder / "a/b/");
  this->files.make_directories(this->folder / "a/b");
  EXPECT_TRUE(this->files.is_directory(this->folder / "a/b"));
  this->files.create(this->folder / "file");
  EXPECT_THROW(this->files.make_directories(this->folder / "file"), IoError);
  EXPECT_THROW(this->files.make_directories(""), IoError);
}

TYPED_TEST(FileSystemContract, RenameReplacesAFileAndRefusesAFullFolder) {
  write_text_atomically(this->files, this->folder / "a", "new");
  write_text_atomically(this->files, this->folder / "b", "old");
  this->files.rename(this->folder / "a", this->folder / "b");
  EXPECT_FALSE(this->files.exists(this->folder / "a"));
  EXPECT_EQ(read_text(this->files, this->folder / "b", 10), "new");

  this->files.make_directories(this->folder / "full" / "x");
  this->files.make_directories(this->folder / "other");
  EXPECT_THROW(this->files.rename(this->folder / "other", this->folder / "full"), IoError);
  EXPECT_THROW(this->files.rename(this->folder / "none", this->folder / "c"), IoError);
}

// Root may rename over /dev/null, and would.
TYPED_TEST(FileSystemContract, NoFileTakesThePlaceOfAPipe) {
  const std::filesystem::path pipe = this->folder / "pipe";
  const std::filesystem::path link = this->folder / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(pipe, link);
  for (const auto& to : {pipe, link}) {
    EXPECT_THAT(error_of([&] { write_text_atomically(this->files, to, "text"); }),
                HasSubstr("not a regular file"));
    EXPECT_THROW(check_replaceable(this->files, to), IoError);
  }
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_FALSE(this->files.exists(this->folder / "pipe.partial"));
  // As /dev/stdout is one, also where that is a file.
  const std::filesystem::path name = this->folder / "name";
  std::filesystem::create_symlink("/proc/self/exe", name);
  EXPECT_THAT(error_of([&] { write_text_atomically(this->files, name, "text"); }),
              HasSubstr("a name for an open file"));
  EXPECT_TRUE(std::filesystem::is_symlink(name));
  EXPECT_THROW(check_replaceable(this->files, this->folder.path()), IoError);
  this->files.create(this->folder / "file");
  check_replaceable(this->files, this->folder / "file");
  check_replaceable(this->files, this->folder / "none");
}

TYPED_TEST(FileSystemContract, RemovesFoldersAndLinksButNotWhatLinksPointTo) {
  this->files.make_directories(this->folder / "kept");
  this->files.create(this->folder / "kept" / "file");
  this->files.make_directories(this->folder / "gone" / "deep");
  this->files.create(this->folder / "gone" / "deep" / "file");
  std::filesystem::create_directory_symlink(this->folder / "kept", this->folder / "gone" / "link");
  this->files.remove_all(this->folder / "gone");
  this->files.remove_all(this->folder / "never-there");
  EXPECT_FALSE(this->files.exists(this->folder / "gone"));
  EXPECT_TRUE(this->files.exists(this->folder / "kept" / "file"));
}

TYPED_TEST(FileSystemContract, SyncsFolders) {
  this->files.sync_directory(this->folder.path());
  EXPECT_THROW(this->files.sync_directory(this->folder / "none"), IoError);
}

TYPED_TEST(FileSystemContract, ThreadsShareAFile) {
  constexpr int kThreads = 4;
  constexpr Bytes kPiece = 1000;
  constexpr int kPieces = 50;
  const auto file = this->files.create(this->folder / "shared");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int p = t; p < kPieces; p += kThreads) {
        const std::vector<std::byte> piece(kPiece, static_cast<std::byte>(p));
        file->write(p * kPiece, piece);
        std::vector<std::byte> back(kPiece);
        file->read(p * kPiece, back);
        EXPECT_EQ(back, piece) << "piece " << p;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(file->size(), kPiece * kPieces);
}

TYPED_TEST(FileSystemContract, ReadTextIsBounded) {
  write_text_atomically(this->files, this->folder / "t", "0123456789");
  EXPECT_EQ(read_text(this->files, this->folder / "t", 10), "0123456789");
  EXPECT_THAT(error_of([&] { read_text(this->files, this->folder / "t", 9); }),
              HasSubstr("expected at most 9 bytes, found 10"));
}

}  // namespace
}  // namespace ebb::io
