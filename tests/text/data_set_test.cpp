#include "text/data/data_set.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data_cases.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

TEST(DataSet, WalksFoldersInSortedOrder) {
  const TemporaryFolder folder;
  folder.write("b.txt", "b");
  folder.write("a/z.txt", "z");
  folder.write("a/deep/er/y", "y");
  folder.write("a.txt", "a");
  folder.write("B.txt", "B");
  EXPECT_EQ(spell(open_data({folder.path()})), "B|y|z|a|b|");
  EXPECT_EQ(spell(open_data({folder.path() / ""})), "B|y|z|a|b|");
}

TEST(DataSet, KeepsTheOrderOfThePathsGiven) {
  const TemporaryFolder folder;
  const fs::path first = folder.write("2.txt", "two");
  const fs::path second = folder.write("1/one.txt", "one").parent_path();
  EXPECT_EQ(spell(open_data({first, second})), "two|one|");
  EXPECT_EQ(spell(open_data({second, first})), "one|two|");
}

TEST(DataSet, MixesFormats) {
  const TemporaryFolder folder;
  folder.write("a.txt", "plain");
  folder.write("b.jsonl", "{\"text\": \"line\"}\n{\"text\": \"two\"}\n");
  EXPECT_EQ(spell(open_data({folder.path()})), "plain|line|two|");
}

TEST(DataSet, PassesOverHiddenFilesUnlessNamed) {
  const TemporaryFolder folder;
  folder.write("seen", "s");
  folder.write(".git/objects", "g");
  const fs::path hidden = folder.write(".hidden", "h");
  EXPECT_EQ(spell(open_data({folder.path()})), "s|");
  EXPECT_EQ(spell(open_data({hidden})), "h|");
}

TEST(DataSet, SkipsWhatIsNoTextAndSaysSo) {
  const TemporaryFolder folder;
  folder.write("1", "text");
  const fs::path empty = folder.write("2", "");
  const fs::path binary = folder.write("3", std::string_view("bin\0ary", 7));
  const fs::path late = folder.write("4", std::string(8191, 'x') + '\0');
  folder.write("5", std::string(8192, 'y') + '\0');  // beyond the bytes looked at
  const DataSet data = open_data({folder.path()});
  EXPECT_EQ(data.files(), 2);
  EXPECT_EQ(spell(data).size(), 5u + 8194u);
  ASSERT_EQ(data.skipped().size(), 3u);
  EXPECT_EQ(data.skipped()[0].path, empty);
  expect_says(data.skipped()[0].reason, "empty");
  EXPECT_EQ(data.skipped()[1].path, binary);
  expect_says(data.skipped()[1].reason, "NUL");
  EXPECT_EQ(data.skipped()[2].path, late);
}

TEST(DataSet, FollowsLinksToFilesOnly) {
  const TemporaryFolder folder;
  fs::create_symlink(folder.write("1", "a"), folder.path() / "2");
  fs::create_directory_symlink(folder.path(), folder.path() / "3");  // a circle
  fs::create_symlink(folder.path() / "nothing", folder.path() / "4");
  const DataSet data = open_data({folder.path()});
  EXPECT_EQ(spell(data), "a|a|");
  ASSERT_EQ(data.skipped().size(), 2u);
  expect_says(data.skipped()[0].reason, "link to a folder");
  expect_says(data.skipped()[1].reason, "leads to no file");
}

TEST(DataSet, ReadsMoreFilesThanItKeepsOpen) {
  const TemporaryFolder folder;
  std::string expected;
  for (int i = 100; i < 300; ++i) {
    folder.write(std::to_string(i), std::to_string(i));
    expected += std::to_string(i) + "|";
  }
  EXPECT_EQ(spell(open_data({folder.path()})), expected);
}

TEST(DataSet, DigestOfBeginningsFollowsTheDataNotItsPlace) {
  const TemporaryFolder here, there;
  for (const TemporaryFolder* folder : {&here, &there}) {
    folder->write("data/a/1", "one");
    folder->write("data/2", std::string(100000, 'x'));
  }
  const std::string digest = open_data({here.path() / "data"}).beginnings_digest();
  EXPECT_EQ(digest.size(), 32u);
  const auto there_now = [&] { return open_data({there.path() / "data"}).beginnings_digest(); };
  EXPECT_EQ(there_now(), digest);

  there.write("data/a/1", "eno");  // another content
  EXPECT_NE(there_now(), digest);
  there.write("data/a/1", "one");
  there.write("data/2", std::string(100001, 'x'));  // another size
  EXPECT_NE(there_now(), digest);
  there.write("data/2", std::string(100000, 'x'));
  EXPECT_EQ(there_now(), digest);
  fs::rename(there.path() / "data/2", there.path() / "data/3");  // another name
  EXPECT_NE(there_now(), digest);
}

TEST(DataSet, DigestOfBeginningsFollowsTheOrderAndTheTokenizer) {
  const TemporaryFolder folder;
  const fs::path a = folder.write("a", "1"), b = folder.write("b", "2");
  EXPECT_NE(open_data({a, b}).beginnings_digest(), open_data({b, a}).beginnings_digest());
  Encoding other = bytes_encoding();
  other.tokenizer = &kBytesAfterBegin;
  EXPECT_NE(open_data({a, b}).beginnings_digest(), open_data({a, b}, other).beginnings_digest());
}

// What a run writes into a folder of data is not data; what lies beside it is.
TEST(DataSet, LeavesOutWhatARunWrites) {
  const TemporaryFolder folder;
  folder.write("a.txt", "a");
  folder.write("run/log.jsonl", "{\"step\": 1}\n");
  folder.write("run/step-1/config.json", "{}");
  folder.write("run2/b.txt", "b");
  const fs::path summary = folder.write("summary.json", "{}");
  fs::create_symlink(summary, folder.path() / "z.txt");
  const fs::path here = fs::current_path();
  for (const fs::path& run :
       {folder.path() / "run", folder.path() / "run/", folder.path() / "run2/../run",
        fs::relative(folder.path() / "run", here)}) {
    const DataSet data = open_data({folder.path()}, bytes_encoding(),
                                   {.not_data = {run, summary, folder.path() / "missing"}});
    EXPECT_EQ(spell(data), "a|b|") << run;
    ASSERT_EQ(data.skipped().size(), 3u) << run;
    EXPECT_EQ(data.skipped()[0].path, folder.path() / "run");
    expect_says(data.skipped()[0].reason, "the run itself writes it");
  }
  // Through a link to the folder, too.
  fs::create_directory_symlink(folder.path(), folder.path() / ".link");
  EXPECT_EQ(spell(open_data({folder.path() / ".link/"}, bytes_encoding(),
                            {.not_data = {folder.path() / "run", summary}})),
            "a|b|");
}

TEST(DataSet, IdentityOfAnItemIsItsOwn) {
  const TemporaryFolder folder;
  const fs::path a = folder.write("a", std::string(10000, 'a'));
  const fs::path b = folder.write("b", std::string(10000, 'b'));
  const DataSet both = open_data({a, b}), other = open_data({b, a}), alone = open_data({b});
  ASSERT_EQ(both.items(), 6);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(both.identity(3 + i), alone.identity(i));
    EXPECT_EQ(both.identity(3 + i), other.identity(i));
    EXPECT_NE(both.identity(i), both.identity(3 + i));
  }
}

TEST(DataSetErrors, APathThatDoesNotExist) {
  const TemporaryFolder folder;
  const std::string message =
      error_of<ConfigError>([&] { open_data({folder.path() / "missing.txt"}); });
  expect_says(message, (folder.path() / "missing.txt").string());
  expect_says(message, "does not exist; give the path of a file");
}

TEST(DataSetErrors, APathThatIsNoFile) {
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string message = error_of<ConfigError>([&] { open_data({pipe}); });
  expect_says(message, pipe.string());
  expect_says(message, "neither a file nor a folder; give a file");
}

TEST(DataSetErrors, NothingToRead) {
  expect_says(error_of<ConfigError>([] { open_data({}); }), "no data was given; give a file");
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "nothing");
  const fs::path empty = folder.write("empty.txt", "");
  const std::string message = error_of<ConfigError>([&] {
    open_data({folder.path() / "nothing", empty});
  });
  expect_says(message, "no text in '" + (folder.path() / "nothing").string() + "', '" +
                           empty.string() + "'");
  expect_says(message, "skipped 1 file, the first '" + empty.string() + "' because it is empty");
  expect_says(message, "give a file that is not empty");
}

TEST(DataSetErrors, ABinaryFileGivenByName) {
  const TemporaryFolder folder;
  const fs::path binary = folder.write("model.bin", std::string_view("bin\0ary", 7));
  const std::string message = error_of<FormatError>([&] { open_data({binary}); });
  expect_says(message, binary.string());
  expect_says(message, "NUL bytes");
  expect_says(message, "ebb tokenize");
}

// A tokenizer would learn the sign that stands for broken characters; bytes are what they are.
TEST(DataSetErrors, MixedEncodings) {
  const TemporaryFolder folder;
  // Whole characters over the border of a block of the check, then a byte of another encoding.
  std::string text(kMiB - 1, 'a');
  text += "\u00e9 and \u20ac";
  folder.write("good.txt", text);
  folder.write("mixed.txt", text + " caf\xe9 au lait");
  Encoding encoding = bytes_encoding();
  encoding.tokenizer = &kBytesAfterBegin;
  EXPECT_EQ(open_data({folder.path() / "good.txt"}, encoding).skipped().size(), 0u);
  EXPECT_EQ(open_data({folder.path() / "mixed.txt"}).skipped().size(), 0u);
  const DataSet both = open_data({folder.path()}, encoding);
  ASSERT_EQ(both.skipped().size(), 1u);
  EXPECT_EQ(both.skipped()[0].reason,
            "its byte " + std::to_string(text.size() + 4) + " is not UTF-8");
  const std::string message =
      error_of<FormatError>([&] { open_data({folder.path() / "mixed.txt"}, encoding); });
  EXPECT_NE(message.find("mixed.txt"), std::string::npos) << message;
  EXPECT_NE(message.find("iconv"), std::string::npos) << message;
}

TEST(DataSetErrors, Utf16) {
  const TemporaryFolder folder;
  for (const char* name : {"a.txt", "a.jsonl"}) {
    for (const std::string_view mark : {"\xff\xfe", "\xfe\xff"}) {
      folder.write(name, std::string(mark) + std::string("a\0b\0", 4));
      const std::string message = error_of<FormatError>([&] { open_data({folder.path()}); });
      expect_says(message, (folder.path() / name).string());
      expect_says(message, "UTF-16");
      expect_says(message, "iconv");
    }
    fs::remove(folder.path() / name);
  }
}

TEST(DataSetErrors, FilesThatChange) {
  const TemporaryFolder folder;
  std::vector<fs::path> paths;
  for (int i = 100; i < 200; ++i) paths.push_back(folder.write(std::to_string(i), "0123456789"));
  // The first is one that was kept open, the last one that is opened again.
  for (const int index : {0, 99}) {
    const DataSet data = open_data(paths);
    fs::resize_file(paths[index], 4);
    const std::string message = error_of<IoError>([&] { (void)data.read(index); });
    expect_says(message, "'" + paths[index].string() + "' has changed");
    expect_says(message, "it had 10 bytes then and has 4 now");
    expect_says(message, "restore the file and resume");
    EXPECT_NO_THROW((void)data.read(50));
    folder.write(paths[index].filename(), "0123456789");
  }
  // Other text of the same size.
  const DataSet data = open_data(paths);
  const auto later = fs::last_write_time(paths[99]) + std::chrono::seconds(2);
  folder.write(paths[99].filename(), "9876543210");
  fs::last_write_time(paths[99], later);
  expect_says(error_of<IoError>([&] { (void)data.read(99); }), "written later");
  fs::remove(paths[98]);
  const std::string message = error_of<IoError>([&] { (void)data.read(98); });
  expect_says(message, paths[98].string());
  expect_says(message, "No such file");
}

}  // namespace
}  // namespace ebb::text
