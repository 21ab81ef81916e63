#include "text/text_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <stdexcept>

#include "ebb/error.h"
#include "temporary_folder.h"
#include "text/byte_tokenizer.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

// The whole stream, with end of text as '|'.
std::string stream_of(const TokenSource& source) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(source.size()));
  source.read(0, ids);
  std::string text;
  for (const std::int32_t id : ids) text.push_back(id == 256 ? '|' : static_cast<char>(id));
  return text;
}

TextFiles open(const std::vector<fs::path>& paths) { return TextFiles(paths, ByteTokenizer()); }

TEST(TextFiles, WalksFoldersInSortedOrder) {
  const TemporaryFolder folder;
  folder.write("b.txt", "b");
  folder.write("a/z.txt", "z");
  folder.write("a/deep/er/y", "y");
  folder.write("a.txt", "a");
  folder.write("B.txt", "B");
  EXPECT_EQ(stream_of(open({folder.path()})), "B|y|z|a|b|");
  EXPECT_EQ(stream_of(open({folder.path() / ""})), "B|y|z|a|b|");
}

TEST(TextFiles, KeepsTheOrderOfThePathsGiven) {
  const TemporaryFolder folder;
  const fs::path first = folder.write("2.txt", "two");
  const fs::path second = folder.write("1/one.txt", "one").parent_path();
  EXPECT_EQ(stream_of(open({first, second})), "two|one|");
  EXPECT_EQ(stream_of(open({second, first})), "one|two|");
}

TEST(TextFiles, PassesOverHiddenFilesUnlessNamed) {
  const TemporaryFolder folder;
  folder.write("seen", "s");
  folder.write(".git/objects", "g");
  const fs::path hidden = folder.write(".hidden", "h");
  EXPECT_EQ(stream_of(open({folder.path()})), "s|");
  EXPECT_EQ(stream_of(open({hidden})), "h|");
}

TEST(TextFiles, SkipsWhatIsNoTextAndSaysSo) {
  const TemporaryFolder folder;
  folder.write("1", "text");
  const fs::path empty = folder.write("2", "");
  const fs::path binary = folder.write("3", std::string_view("bin\0ary", 7));
  const fs::path late = folder.write("4", std::string(8191, 'x') + '\0');
  folder.write("5", std::string(8192, 'y') + '\0');  // beyond the bytes looked at
  const TextFiles files = open({folder.path()});
  EXPECT_EQ(files.documents(), 2);
  EXPECT_EQ(files.size(), 5 + 8194);
  ASSERT_EQ(files.skipped().size(), 3u);
  EXPECT_EQ(files.skipped()[0].path, empty);
  expect_says(files.skipped()[0].reason, "empty");
  EXPECT_EQ(files.skipped()[1].path, binary);
  expect_says(files.skipped()[1].reason, "NUL");
  EXPECT_EQ(files.skipped()[2].path, late);
}

TEST(TextFiles, AnEmptyFileAmongFilesAddsNothing) {
  const TemporaryFolder folder;
  folder.write("1", "a");
  folder.write("2", "");
  folder.write("3", "b");
  EXPECT_EQ(stream_of(open({folder.path()})), "a|b|");
}

TEST(TextFiles, FollowsLinksToFilesOnly) {
  const TemporaryFolder folder;
  fs::create_symlink(folder.write("1", "a"), folder.path() / "2");
  fs::create_directory_symlink(folder.path(), folder.path() / "3");  // a circle
  fs::create_symlink(folder.path() / "nothing", folder.path() / "4");
  const TextFiles files = open({folder.path()});
  EXPECT_EQ(stream_of(files), "a|a|");
  ASSERT_EQ(files.skipped().size(), 2u);
  expect_says(files.skipped()[0].reason, "link to a folder");
  expect_says(files.skipped()[1].reason, "leads to no file");
}

TEST(TextFiles, ReadsAnyRange) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 40000; ++i) text.push_back(static_cast<char>(1 + i % 251));  // many reads
  folder.write("1", "ab");
  folder.write("2", text);
  folder.write("3", "\xff");
  const TextFiles files = open({folder.path()});
  std::vector<std::int32_t> whole(static_cast<std::size_t>(files.size()));
  files.read(0, whole);
  EXPECT_EQ(whole[3], 1);
  EXPECT_EQ(whole[40003], 256);
  EXPECT_EQ(whole[40004], 255);
  EXPECT_EQ(whole[40005], 256);
  for (const std::int64_t first : {0, 1, 2, 3, 4, 17000, 40001, 40002, 40003, 40004, 40005}) {
    for (const std::int64_t count : {0, 1, 2, 3, 5, 16384, 16385, 33000}) {
      if (first + count > files.size()) continue;
      std::vector<std::int32_t> part(static_cast<std::size_t>(count));
      files.read(first, part);
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first))
          << count << " tokens from " << first;
    }
  }
}

TEST(TextFiles, ReadsMoreFilesThanItKeepsOpen) {
  const TemporaryFolder folder;
  std::string expected;
  for (int i = 100; i < 300; ++i) {
    folder.write(std::to_string(i), std::to_string(i));
    expected += std::to_string(i) + "|";
  }
  EXPECT_EQ(stream_of(open({folder.path()})), expected);
}

TEST(TextFiles, RefusesRangesOutsideTheStream) {
  const TemporaryFolder folder;
  const TextFiles files = open({folder.write("1", "abc")});
  std::vector<std::int32_t> two(2);
  EXPECT_THROW(files.read(-1, two), std::out_of_range);
  EXPECT_THROW(files.read(3, two), std::out_of_range);
  EXPECT_THROW(files.read(INT64_MAX, two), std::out_of_range);
  EXPECT_NO_THROW(files.read(4, std::span(two).first(0)));
}

TEST(TextFiles, DigestFollowsTheDataNotItsPlace) {
  const TemporaryFolder here, there;
  for (const TemporaryFolder* folder : {&here, &there}) {
    folder->write("data/a/1", "one");
    folder->write("data/2", std::string(100000, 'x'));
  }
  const std::string digest = open({here.path() / "data"}).digest();
  EXPECT_EQ(digest.size(), 32u);
  EXPECT_EQ(open({there.path() / "data"}).digest(), digest);

  there.write("data/a/1", "eno");  // another content
  EXPECT_NE(open({there.path() / "data"}).digest(), digest);
  there.write("data/a/1", "one");
  there.write("data/2", std::string(100001, 'x'));  // another size
  EXPECT_NE(open({there.path() / "data"}).digest(), digest);
  there.write("data/2", std::string(100000, 'x'));
  EXPECT_EQ(open({there.path() / "data"}).digest(), digest);
  fs::rename(there.path() / "data/2", there.path() / "data/3");  // another name
  EXPECT_NE(open({there.path() / "data"}).digest(), digest);
}

TEST(TextFiles, DigestFollowsTheOrder) {
  const TemporaryFolder folder;
  const fs::path a = folder.write("a", "1"), b = folder.write("b", "2");
  EXPECT_NE(open({a, b}).digest(), open({b, a}).digest());
}

TEST(TextFilesErrors, APathThatDoesNotExist) {
  const TemporaryFolder folder;
  const std::string message = error_of<ConfigError>([&] { open({folder.path() / "missing.txt"}); });
  expect_says(message, (folder.path() / "missing.txt").string());
  expect_says(message, "does not exist; give the path of a text file");
}

TEST(TextFilesErrors, APathThatIsNoFile) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string message = error_of<ConfigError>([&] { open({pipe}); });
  expect_says(message, pipe.string());
  expect_says(message, "neither a file nor a folder; give a text file");
}

TEST(TextFilesErrors, NoPaths) {
  const std::string message = error_of<ConfigError>([] { open({}); });
  expect_says(message, "no data was given; give a text file");
}

TEST(TextFilesErrors, NoText) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "nothing");
  const fs::path empty = folder.write("empty.txt", "");
  const std::string message = error_of<ConfigError>([&] {
    open({folder.path() / "nothing", empty});
  });
  expect_says(message, "no text in '" + (folder.path() / "nothing").string() + "', '" +
                           empty.string() + "'");
  expect_says(message, "skipped 1 file, the first '" + empty.string() + "' because it is empty");
  expect_says(message, "give a text file that is not empty");
}

TEST(TextFilesErrors, AFileThatShrank) {
  const TemporaryFolder folder;
  std::vector<fs::path> paths;
  for (int i = 100; i < 200; ++i) paths.push_back(folder.write(std::to_string(i), "0123456789"));
  const TextFiles files = open(paths);
  std::vector<std::int32_t> document(10);
  // The first is one that was kept open, the last one that is opened again.
  for (const int index : {0, 99}) {
    fs::resize_file(paths[index], 4);
    EXPECT_NO_THROW(files.read(index * 11, std::span(document).first(4)));
    const std::string message = error_of<IoError>([&] { files.read(index * 11, document); });
    expect_says(message, "'" + paths[index].string() + "' had 10 bytes");
    expect_says(message, "now ends at 4");
    expect_says(message, "restore the file and resume");
  }
}

TEST(TextFilesErrors, AFileThatVanished) {
  const TemporaryFolder folder;
  for (int i = 100; i < 200; ++i) folder.write(std::to_string(i), "0123456789");
  const TextFiles files = open({folder.path()});
  fs::remove(folder.path() / "199");
  std::vector<std::int32_t> document(10);
  const std::string message = error_of<IoError>([&] { files.read(99 * 11, document); });
  expect_says(message, (folder.path() / "199").string());
  expect_says(message, "No such file");
}

TEST(TextFilesErrors, ATokenizerWhoseTokensAreNotBytes) {
  class Words : public Tokenizer {
    std::vector<std::int32_t> encode(std::string_view) const override { return {}; }
    std::string decode(std::span<const std::int32_t>) const override { return {}; }
    std::int32_t vocabulary() const override { return 1; }
    std::int32_t end_of_text() const override { return 0; }
    std::string name() const override { return "words"; }
    std::optional<std::int32_t> id_of(std::string_view) const override { return std::nullopt; }
  };
  const TemporaryFolder folder;
  const fs::path file = folder.write("1", "a");
  const std::string message = error_of<ConfigError>([&] { TextFiles({file}, Words()); });
  expect_says(message, "'words'");
  expect_says(message, "use the tokenizer 'bytes'");
}

}  // namespace
}  // namespace ebb::text
