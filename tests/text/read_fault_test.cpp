// What a disk that fails does to whoever reads data and tokenizers from it.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "data_cases.h"
#include "ebb/error.h"
#include "io/fault_file_system.h"
#include "small_tokenizer.h"
#include "text/data/file_digests.h"
#include "text/tokenizer_folder.h"

namespace ebb::text {
namespace {

class ReadFault : public testing::Test {
 protected:
  DataSet open(const std::filesystem::path& path) {
    return DataSet(files, {path}, bytes_encoding(), {.passage_bytes = 8});
  }

  // The next read fails, all others do not.
  void fail_next() { files.fail_read(files.counts().reads + 1); }

  // That it says which file failed, and where.
  static void expect_named(const std::function<void()>& act, const std::filesystem::path& path,
                           Bytes offset) {
    try {
      act();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const IoError& error) {
      EXPECT_EQ(error.path(), path.string());
      EXPECT_EQ(error.offset(), offset);
      expect_says(error.what(), path.string());
      expect_says(error.what(), "offset " + std::to_string(offset));
      expect_says(error.what(), "Input/output error");
    }
  }

  TemporaryFolder folder;
  io::FaultFileSystem files{disk};
};

TEST_F(ReadFault, OfAnItemNamesFileAndOffset) {
  const auto path = folder.write("a.txt", "one two three four five six seven");
  const DataSet data = open(path);
  const std::string before = spell(data);
  fail_next();
  // The byte before its stretch is read with it.
  expect_named([&] { data.read(2); }, path, 15);
  EXPECT_EQ(spell(data), before);
}

TEST_F(ReadFault, OfAnyReadWhileOpeningIsAnError) {
  const auto path = folder.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  open(path);
  const std::int64_t reads = files.counts().reads;
  ASSERT_GE(reads, 3);  // its beginning, its lines, the first of them
  for (std::int64_t nth = 1; nth <= reads; ++nth) {
    files.fail_read(files.counts().reads + nth);
    expect_named([&] { open(path); }, path, 0);
  }
  EXPECT_EQ(spell(open(path)), "one|two|");
}

// A file that is not kept open is opened for each read, which is no way past the file system.
TEST_F(ReadFault, OfAFileThatWasClosedNamesFileAndOffset) {
  const auto path = folder.write("a", "0123456789");
  SourceFile file(files, path);
  file.close();
  EXPECT_EQ(file.read(4, 2), "45");
  fail_next();
  expect_named([&] { file.read(4, 2); }, path, 4);
  EXPECT_EQ(file.read(4, 2), "45");
}

TEST_F(ReadFault, LeavesAFileWithoutItsDigest) {
  const auto path = folder.write("a.txt", "one two three four five six seven");
  const DataSet data = open(path);
  fail_next();
  FileDigests digests(data);
  const FileDigests::Result* result = digests.finish([](Bytes, Bytes) { return true; });
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(result->files.front().digest, "");
  expect_says(result->problem, path.string());
}

TEST_F(ReadFault, OfATokenizerNamesItsFile) {
  const auto path = folder.write(kTokenizerFile, small_tokenizer().dump());
  load_tokenizer(files, folder.path());
  fail_next();
  expect_named([&] { load_tokenizer(files, folder.path()); }, path, 0);
}

}  // namespace
}  // namespace ebb::text
