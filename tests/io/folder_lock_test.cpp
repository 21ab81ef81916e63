#include "io/folder_lock.h"

#include <unistd.h>

#include <fstream>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "io/temp_folder.h"

namespace ebb::io {
namespace {

using testing::HasSubstr;

std::string refusal(const std::filesystem::path& folder) {
  try {
    const FolderLock lock(folder, "--out run");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

TEST(FolderLock, IsOfOneAtATimeAndNamesItsHolder) {
  const TempFolder folder;
  auto lock = std::make_unique<FolderLock>(folder.path(), "--out run");
  // A lock of this process on another open file counts like that of another process.
  EXPECT_THAT(refusal(folder.path()),
              HasSubstr("--out run: process " + std::to_string(::getpid())));
  lock.reset();
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(FolderLock, LeavesNothingBehind) {
  const TempFolder folder;
  { const FolderLock lock(folder.path(), "--out run"); }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FolderLock, TakesOverWhatAKilledProcessLeft) {
  const TempFolder folder;
  std::ofstream(folder / FolderLock::kName) << "process 1 on another\n and more";
  EXPECT_EQ(refusal(folder.path()), "");
}

TEST(FolderLock, ControlCharactersOfTheHolderAreNotObeyed) {
  const TempFolder folder;
  const FolderLock lock(folder.path(), "--out run");
  std::ofstream(folder / FolderLock::kName) << "process \033[2J\n";
  EXPECT_THAT(refusal(folder.path()), testing::Not(HasSubstr("\033")));
}

TEST(FolderLock, AFolderThatIsNotThereIsAnIoError) {
  const TempFolder folder;
  EXPECT_THROW(FolderLock(folder / "none", "--out none"), IoError);
}

}  // namespace
}  // namespace ebb::io
