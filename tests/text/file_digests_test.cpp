#include "text/data/file_digests.h"

#include <gtest/gtest.h>

#include <set>

#include "base/digest.h"
#include "data_cases.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

std::string hex(std::string_view bytes) {
  Digest digest;
  digest.add(std::as_bytes(std::span(bytes)));
  return digest.hex();
}

FileDigests::Result digests_of(const DataSet& data) {
  return *FileDigests(data).finish([](Bytes, Bytes) { return true; });
}

Encoding tokenized() {
  Encoding encoding = bytes_encoding();
  encoding.tokenizer = &kBytesAfterBegin;
  return encoding;
}

// Every byte of a file of each kind: also the mark before UTF-8, and behind borders of pieces.
TEST(FileDigests, AreOfAllBytesOfEveryFile) {
  const TemporaryFolder folder;
  const std::string line = "{\"text\": \"" + std::string(100, 'x') + "\"}\n";
  std::string lines = "\xef\xbb\xbf", text(kMiB - 1, 'a');
  while (lines.size() < 3 * kMiB + 77) lines += line;
  text += "\u00e9 over the border of a block of the check, " + std::string(2 * kMiB, 'b');
  folder.write("a/lines.jsonl", lines);
  folder.write("text.txt", text);
  for (const bool tokenizer : {false, true}) {
    const DataSet data = open_data({folder.path()}, tokenizer ? tokenized() : bytes_encoding());
    const std::vector<FileRecord> expected = {
        {"a/lines.jsonl", static_cast<Bytes>(lines.size()), hex(lines)},
        {"text.txt", static_cast<Bytes>(text.size()), hex(text)}};
    const FileDigests::Result found = digests_of(data);
    EXPECT_EQ(found.files, expected);
    EXPECT_EQ(found.problem, "");
    // What opening the files reads is known at once.
    EXPECT_EQ(data.records()[0].digest, expected[0].digest);
    EXPECT_EQ(data.records()[1].digest, tokenizer ? expected[1].digest : "");
  }
}

TEST(FileDigests, OneForAllFollowsNamesSizesContentsAndOrder) {
  const std::vector<FileRecord> files = {{"a", 3, hex("abc")}, {"b", 1, hex("d")}};
  std::set<std::string> seen = {digest_of(files)};
  const auto differs = [&](const std::vector<FileRecord>& other) {
    return seen.insert(digest_of(other)).second;
  };
  EXPECT_EQ(digest_of(files).size(), 32u);
  EXPECT_FALSE(differs(files));
  EXPECT_TRUE(differs({files[1], files[0]}));
  EXPECT_TRUE(differs({files[0]}));
  EXPECT_TRUE(differs({{"c", 3, hex("abc")}, files[1]}));
  EXPECT_TRUE(differs({{"a", 4, hex("abc")}, files[1]}));
  EXPECT_TRUE(differs({{"a", 3, hex("abd")}, files[1]}));
}

TEST(FileDigests, AFileThatChangesHasNoneAndTheOthersDo) {
  const TemporaryFolder folder;
  const fs::path first = folder.write("1", "one");
  folder.write("2", "two");
  const DataSet data = open_data({folder.path()});
  fs::resize_file(first, 2);
  const FileDigests::Result found = digests_of(data);
  EXPECT_EQ(found.files[0].digest, "");
  EXPECT_EQ(found.files[1].digest, hex("two"));
  expect_says(found.problem, "'" + first.string() + "' has changed");
}

// A file of nothing, far too large to be read by the end of this test.
TEST(FileDigests, EndsWithFilesNotRead) {
  const TemporaryFolder folder;
  const fs::path huge = folder.write("huge.txt", std::string(10000, 'x'));
  fs::resize_file(huge, std::uintmax_t{1} << 42);
  const DataSet data = open_data({huge});
  FileDigests digests(data);
  EXPECT_LE(digests.memory_bytes(), 2 * kMiB);
  int pieces = 0;
  EXPECT_EQ(digests.finish([&](Bytes, Bytes) { return ++pieces < 3; }), nullptr);
  EXPECT_EQ(pieces, 3);
}

// Nobody is asked where nothing is left to read.
TEST(FileDigests, WhatIsKnownIsToldAtOnce) {
  const TemporaryFolder folder;
  folder.write("lines.jsonl", "{\"text\": \"one\"}\n");
  const DataSet data = open_data({folder.path()});
  EXPECT_NE(FileDigests(data).finish([](Bytes, Bytes) { return false; }), nullptr);
}

}  // namespace
}  // namespace ebb::text
