// Compressed data is the data that is in it, wherever a run stops; its digest is the file's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "data_cases.h"
#include "ebb/error.h"
#include "io/packed.h"
#include "text/data/file_digests.h"
#include "text/data/prefetch.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

class CompressedTest : public testing::Test {
 protected:
  CompressedTest() {
    for (int i = 0; i < 500; ++i) {
      lines += fmt::format("{{\"text\": \"{} and {}\"}}\n", i,
                           std::string(static_cast<std::size_t>(i % 37), 'y'));
      words += fmt::format("line {} of a text that goes on and on\n", i);
    }
    folder.write("plain/a.jsonl", lines);
    folder.write("plain/b.txt", words);
    folder.write("plain/c.csv", rows);
    folder.write("packed/a.jsonl.gz",
                 io::gzip_of(lines.substr(0, 700)) + io::gzip_of(lines.substr(700)));
    folder.write("packed/b.txt.zst", io::zstd_of(words));
    folder.write("packed/c.csv.gz", io::gzip_of(rows));
    folder.write("work/x", "");
    options.unpack_in = folder.path() / "work";
  }

  TemporaryFolder folder;
  DataOptions options;
  std::string lines, words;
  std::string rows = "text\nhello\n\"a, b\"\n";
};

TEST_F(CompressedTest, HoldsTheItemsOfWhatIsInIt) {
  const DataSet plain = open_data({folder.path() / "plain"});
  const DataSet packed = open_data({folder.path() / "packed"}, bytes_encoding(), options);
  ASSERT_EQ(packed.items(), plain.items());
  EXPECT_EQ(packed.files(), 3);
  for (std::int64_t i = packed.items() - 1; i >= 0; --i) {
    ASSERT_EQ(packed.read(i).tokens, plain.read(i).tokens) << i;
    ASSERT_EQ(packed.read(i).next, plain.read(i).next) << i;
  }
  EXPECT_EQ(packed.unpacked_bytes(), static_cast<Bytes>(lines.size() + words.size() + rows.size()));
  EXPECT_EQ(plain.unpacked_bytes(), 0);
  // Nothing of it has a name.
  EXPECT_EQ(std::distance(fs::directory_iterator(options.unpack_in), fs::directory_iterator()), 1);
}

TEST_F(CompressedTest, IsRememberedByItsOwnBytes) {
  const DataSet packed = open_data({folder.path() / "packed"}, bytes_encoding(), options);
  FileDigests digests(packed);
  const FileDigests::Result* result = digests.finish([](Bytes, Bytes) { return true; });
  ASSERT_NE(result, nullptr);
  ASSERT_EQ(result->files.size(), 3u);
  for (const FileRecord& record : result->files) {
    const fs::path path = folder.path() / "packed" / record.name;
    std::string bytes(fs::file_size(path), '\0');
    std::ifstream(path, std::ios::binary)
        .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    Digest digest;
    digest.add(std::as_bytes(std::span(bytes)));
    EXPECT_EQ(record.digest, digest.hex()) << record.name;
    EXPECT_EQ(record.bytes, static_cast<Bytes>(bytes.size())) << record.name;
  }
}

TEST_F(CompressedTest, GoesOnAtAnyPosition) {
  const DataSet data = open_data({folder.path() / "packed"}, bytes_encoding(), options);
  const BatchRules rules{
      .shape = {.sequence = 64, .rows = 2}, .packing = Packing::stream, .seed = 5};
  const auto take = [&](const DataSet& from, DataPosition start, std::size_t count) {
    Prefetcher batches(from, rules, start, {.items = 32, .tokens = 500, .workers = 2});
    std::vector<Batch> all;
    while (all.size() < count) all.push_back(batches.next());
    return all;
  };
  const std::vector<Batch> whole = take(data, {}, 60);
  for (const std::size_t stop : {1u, 17u, 40u}) {
    // Unpacked anew, as by a run that goes on.
    const DataSet again = open_data({folder.path() / "packed"}, bytes_encoding(), options);
    const std::vector<Batch> rest = take(again, whole[stop - 1].position_after, 60 - stop);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      ASSERT_EQ(rest[i].tokens, whole[stop + i].tokens) << stop << ", " << i;
      ASSERT_EQ(rest[i].targets, whole[stop + i].targets) << stop << ", " << i;
    }
  }
}

TEST_F(CompressedTest, WhatIsBrokenIsNamed) {
  const std::string packed = io::gzip_of(lines);
  const fs::path cut = folder.write("broken/cut.jsonl.gz", packed.substr(0, packed.size() / 2));
  for (const fs::path& path : {cut, cut.parent_path()}) {
    const std::string message = error_of<FormatError>([&] { open_data({path}); });
    expect_says(message, "cut.jsonl.gz'");
    expect_says(message, "cut short");
  }
  folder.write("broken/good.jsonl.gz", packed);
  DataOptions skip = options;
  skip.skip_bad = true;
  const DataSet rest = open_data({cut.parent_path()}, bytes_encoding(), skip);
  EXPECT_EQ(rest.items(), 500);
  ASSERT_EQ(rest.skipped().size(), 1u);
  EXPECT_TRUE(rest.skipped()[0].bad);
  EXPECT_EQ(spell(rest.read(499).tokens).substr(0, 8), "499 and ");
}

TEST_F(CompressedTest, OtherKindsAreNamed) {
  const struct {
    std::string name, bytes;
    std::vector<std::string_view> words;
  } cases[] = {
      {"a.txt", io::gzip_of(words), {"gzip", "ends in .gz"}},
      {"a.bin", io::zstd_of(words), {"zstd", "ends in .zst"}},
      {"a.bz2", "BZh91AY&SY", {"bzip2", "unpack it"}},
      {"a.zip", "PK\x03\x04 and so on", {"zip", "unpack it"}},
      {"a.parquet", std::string("PAR1\0\0", 6), {"Parquet", "JSONL", "python3"}},
  };
  for (const auto& [name, bytes, words] : cases) {
    const fs::path path = folder.write("other/" + name, bytes);
    const std::string message = error_of<FormatError>([&] { open_data({path}); });
    expect_says(message, name + "'");
    for (const std::string_view word : words) expect_says(message, word);
  }
}

}  // namespace
}  // namespace ebb::text
