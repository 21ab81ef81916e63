#include "io/direct/direct_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "io/temp_folder.h"

namespace ebb::io {
namespace {

using testing::HasSubstr;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const IoError& error) {
    return error.what();
  }
  return "(no error)";
}

struct stat status_of(const DirectFile& file) {
  struct stat status {};
  EXPECT_EQ(::fstat(file.descriptor(), &status), 0);
  return status;
}

// No file may grow beyond it, whatever disk the test runs on.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(Bytes bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(bytes);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(DirectFile, HasItsSizeAndItsRoomFromTheStart) {
  const TempFolder folder;
  const DirectFile file = DirectFile::create(folder.path(), 3 * kMiB + 4096);
  EXPECT_EQ(file.size(), 3 * kMiB + 4096);
  EXPECT_EQ(file.folder(), folder.path());
  const struct stat status = status_of(file);
  EXPECT_EQ(status.st_size, 3 * kMiB + 4096);
  EXPECT_GE(Bytes{status.st_blocks} * 512, 3 * kMiB + 4096);
}

TEST(DirectFile, LeavesNoNameBehind) {
  const TempFolder folder;
  const DirectFile first = DirectFile::create(folder.path(), kMiB);
  const DirectFile second = DirectFile::create(folder.path(), kMiB);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_EQ(status_of(first).st_nlink, 0U);
  EXPECT_NE(status_of(first).st_ino, status_of(second).st_ino);
}

TEST(DirectFile, TakesNothingThatHasItsName) {
  const TempFolder folder;
  const auto taken = folder / (".ebb-tier-" + std::to_string(::getpid()) + "-0");
  std::ofstream(taken) << "another's";
  const DirectFile file = DirectFile::create(folder.path(), kMiB);
  EXPECT_EQ(std::filesystem::file_size(taken), 9U);
  EXPECT_EQ(status_of(file).st_nlink, 0U);
}

TEST(DirectFile, CanBeEmpty) {
  const TempFolder folder;
  const DirectFile file = DirectFile::create(folder.path(), 0);
  EXPECT_EQ(file.size(), 0);
  EXPECT_EQ(status_of(file).st_size, 0);
}

TEST(DirectFile, IsClosedByItsLastOwnerOnly) {
  const TempFolder folder;
  DirectFile file = DirectFile::create(folder.path(), kMiB);
  const int descriptor = file.descriptor();
  {
    const DirectFile owner = std::move(file);
    EXPECT_EQ(owner.descriptor(), descriptor);
    EXPECT_EQ(owner.size(), kMiB);
    EXPECT_NE(::fcntl(descriptor, F_GETFD), -1);
  }
  EXPECT_EQ(::fcntl(descriptor, F_GETFD), -1);
  file = DirectFile::create(folder.path(), 4096);
  EXPECT_EQ(file.size(), 4096);
}

TEST(DirectFile, SaysThatTheFolderIsMissing) {
  const TempFolder folder;
  const std::string error = error_of([&] { DirectFile::create(folder / "missing", 3 * kMiB); });
  EXPECT_THAT(error, HasSubstr((folder / "missing").string()));
  EXPECT_THAT(error, HasSubstr("3145728 bytes"));
  EXPECT_THAT(error, HasSubstr("No such file or directory"));
  EXPECT_THAT(error, HasSubstr("--disk"));
}

TEST(DirectFile, SaysThatTheFolderIsNone) {
  const TempFolder folder;
  std::ofstream(folder / "file") << "x";
  const std::string error = error_of([&] { DirectFile::create(folder / "file", kMiB); });
  EXPECT_THAT(error, HasSubstr("Not a directory. Give the path of a folder with --disk."));
}

TEST(DirectFile, SaysThatTheFolderIsForbidden) {
  if (::geteuid() == 0) GTEST_SKIP() << "nothing is forbidden to root";
  const TempFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read);
  const std::string error = error_of([&] { DirectFile::create(folder.path(), kMiB); });
  EXPECT_THAT(error, HasSubstr("Permission denied. Change its permissions"));
}

TEST(DirectFile, SaysWhatIsWantedAndAvailableWhereThereIsNoRoom) {
  const TempFolder folder;
  const Bytes wanted = Bytes{1} << 60;
  const std::string error = error_of([&] { DirectFile::create(folder.path(), wanted); });
  EXPECT_THAT(error, HasSubstr(folder.path().string()));
  EXPECT_THAT(error, HasSubstr("1152921504606846976 bytes"));
  EXPECT_THAT(error, HasSubstr("are available: No space left on device. Free room"));
}

TEST(DirectFile, AFileThatCannotBeSoLargeLeavesNothing) {
  const TempFolder folder;
  const std::string error = [&] {
    const FileSizeLimit limit(kMiB);
    return error_of([&] { DirectFile::create(folder.path(), 2 * kMiB); });
  }();
  EXPECT_THAT(error, HasSubstr("File too large"));
  EXPECT_THAT(error, HasSubstr("--disk"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(DirectFile, WorksInMemoryToo) {
  const std::filesystem::path memory = "/dev/shm";
  if (!std::filesystem::is_directory(memory)) GTEST_SKIP() << "no /dev/shm";
  const DirectFile file = DirectFile::create(memory, kMiB);
  EXPECT_EQ(status_of(file).st_size, kMiB);
  EXPECT_FALSE(file.direct()) << "also where the kernel lets it be opened so";
}

}  // namespace
}  // namespace ebb::io
