// Files of tokens: Ebb's, llm.c's and LLMQ's.
#include "text/data/token_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <numeric>

#include <fmt/format.h>

#include "data_cases.h"
#include "ebb/error.h"
#include "io/fault_file_system.h"
#include "io/posix_file_system.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

template <class Number>
void put(std::string& text, std::size_t offset, Number number) {
  std::memcpy(text.data() + offset, &number, sizeof number);
}

template <class Token>
std::string bytes_of(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) {
    const auto token = static_cast<Token>(id);
    text.append(reinterpret_cast<const char*>(&token), sizeof token);
  }
  return text;
}

std::string llmc(const std::vector<std::int32_t>& ids, bool wide) {
  std::string text(1024, '\0');
  put<std::int32_t>(text, 0, wide ? 20240801 : 20240520);
  put<std::int32_t>(text, 4, wide ? 7 : 1);
  put<std::int32_t>(text, 8, static_cast<std::int32_t>(ids.size()));
  return text + (wide ? bytes_of<std::uint32_t>(ids) : bytes_of<std::uint16_t>(ids));
}

std::string llmq(const std::vector<std::int32_t>& ids, int version,
                 const std::vector<bool>& mask = {}) {
  std::string text = std::string(1023, '*') + "\n";
  text.replace(0, 8, "BIN.TOK\n");
  put<std::int32_t>(text, 8, version);
  put<std::int32_t>(text, 12, 4);
  put<std::int32_t>(text, 16, static_cast<std::int32_t>(ids.size()));
  if (version == 2) {
    put<std::int32_t>(text, 20, 300);
    put<std::int32_t>(text, 24, mask.empty() ? 0 : 1);
  }
  text += bytes_of<std::uint32_t>(ids);
  std::string bits((mask.size() + 7) / 8, '\0');
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i]) bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8)));
  }
  return text + bits;
}

fs::path write_ours(const TemporaryFolder& folder, const std::vector<std::int32_t>& ids,
                    const Tokenizer& tokenizer = kBytes) {
  io::PosixFileSystem files;
  TokenFileWriter writer(files, folder.path() / "ours.tokens", tokenizer);
  writer.write(std::span(ids).first(ids.size() / 3));
  writer.write(std::span(ids).subspan(ids.size() / 3));
  writer.finish();
  EXPECT_EQ(writer.tokens(), static_cast<std::int64_t>(ids.size()));
  return folder.path() / "ours.tokens";
}

std::vector<std::int32_t> some_ids(std::size_t count) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = static_cast<std::int32_t>(i * 37 % 257);
  return ids;
}

TEST(TokenFile, WindowsAreTheTokensAndWhatFollowsThem) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> ids = some_ids(100);
  ids.back() = 256;
  const fs::path paths[] = {write_ours(folder, ids), folder.write("narrow.bin", llmc(ids, false)),
                            folder.write("wide.bin", llmc(ids, true)),
                            folder.write("1.bin", llmq(ids, 1)),
                            folder.write("2.bin", llmq(ids, 2))};
  for (const fs::path& path : paths) {
    for (const std::int64_t window : {1, 7, 99, 100, 101}) {
      const DataSet data = open_data({path}, bytes_encoding(), {.window_tokens = window});
      ASSERT_EQ(data.items(), (100 + window - 1) / window) << path;
      EXPECT_NE(data.find(Form::windows), nullptr);
      std::size_t at = 0;
      for (std::int64_t i = 0; i < data.items(); ++i) {
        const Item item = data.read(i);
        for (const std::int32_t token : item.tokens) ASSERT_EQ(token, ids[at++]) << path;
        EXPECT_EQ(item.next, at < 100 ? ids[at] : Item::kNextItem) << path;
      }
      EXPECT_EQ(at, 100u);
    }
  }
}

TEST(TokenFile, ThatEndsInTheMiddleOfATextSaysSo) {
  const TemporaryFolder folder;
  const DataSet data = open_data({folder.write("a.bin", llmc({1, 2, 3}, false))});
  EXPECT_EQ(data.read(0).next, Item::kUnknown);
}

TEST(TokenFile, MasksOfLlmqSayWhatCarriesLoss) {
  const TemporaryFolder folder;
  const std::vector<std::int32_t> ids = some_ids(43);
  std::vector<bool> mask(43);
  for (std::size_t i = 0; i < 43; ++i) mask[i] = i * i % 3 == 1;
  const fs::path path = folder.write("a.bin", llmq(ids, 2, mask));
  Encoding encoding = bytes_encoding();
  for (const bool all : {false, true}) {
    encoding.loss_on_all = all;
    const DataSet data = open_data({path}, encoding, {.window_tokens = 5});
    for (std::size_t i = 0; i < 43; ++i) {
      const Item item = data.read(static_cast<std::int64_t>(i / 5));
      EXPECT_EQ(item.tokens[i % 5], all || mask[i] ? ids[i] : ~ids[i]) << i;
      if (i % 5 < 4) continue;
      EXPECT_EQ(item.next, all || mask[i + 1] ? ids[i + 1] : -1) << i;
    }
  }
}

class BadTokenFile : public testing::Test {
 protected:
  std::string refused(const std::string& bytes, const Encoding& encoding = bytes_encoding()) {
    const fs::path path = folder.write("bad.bin", bytes);
    const std::string message = error_of<FormatError>([&] {
      const DataSet data = open_data({path}, encoding);
      for (std::int64_t i = 0; i < data.items(); ++i) (void)data.read(i);
    });
    expect_says(message, "'" + path.string() + "'");
    return message;
  }

  TemporaryFolder folder;
  std::vector<std::int32_t> ids = some_ids(10);
};

TEST_F(BadTokenFile, CutShortOrGrown) {
  for (const std::string& whole : {llmc(ids, false), llmc(ids, true), llmq(ids, 1), llmq(ids, 2)}) {
    for (const std::size_t cut : {std::size_t{1}, std::size_t{2}, std::size_t{4}}) {
      expect_says(refused(whole.substr(0, whole.size() - cut)), "make it again");
    }
    expect_says(refused(whole + "x"), "something was added");
    expect_says(refused(whole.substr(0, 500)), "ends at byte 500, inside its header of 1024");
    expect_says(refused(whole.substr(0, 1024)), "10 tokens");
  }
  expect_says(refused(llmq(ids, 2, std::vector<bool>(10)).substr(0, 1024 + 41)), "their mask");
}

TEST_F(BadTokenFile, Versions) {
  std::string other = llmc(ids, false);
  put<std::int32_t>(other, 4, 3);
  std::string message = refused(other);
  expect_says(message, "llm.c's format, version 3; Ebb reads version 1");
  expect_says(message, "ebb tokenize");
  other = llmc(ids, true);
  put<std::int32_t>(other, 4, 1);
  expect_says(refused(other), "version 1; Ebb reads version 7");
  expect_says(refused(llmq(ids, 3)), "LLMQ's format, version 3; Ebb reads version 1 or 2");
  std::string ours;
  {
    std::ifstream file(write_ours(folder, ids), std::ios::binary);
    ours.assign(std::istreambuf_iterator<char>(file), {});
  }
  put<std::uint32_t>(ours, 8, 9);
  expect_says(refused(ours), "Ebb's format, version 9");
}

TEST_F(BadTokenFile, HeadersThatLie) {
  std::string text = llmc(ids, false);
  for (const std::int32_t count : {-1, 0, 11, 2147483647, -2147483647}) {
    put<std::int32_t>(text, 8, count);
    expect_says(refused(text), std::to_string(count));
  }
  text = llmq(ids, 2);
  for (const std::int32_t width : {0, -4, 3, 8, 2147483647}) {
    put<std::int32_t>(text, 12, width);
    expect_says(refused(text), std::to_string(width) + " bytes a token; expected 2 or 4");
  }
}

TEST_F(BadTokenFile, IdsOutsideTheVocabulary) {
  Encoding encoding = bytes_encoding();
  encoding.vocabulary = 200;
  const std::string message = refused(llmc({1, 2, 199, 200, 3}, false), encoding);
  expect_says(message, "offset 1030: token 4 is the id 200, outside the model's vocabulary of 200");
  encoding.vocabulary = 2147483647;
  expect_says(refused(llmq({5, -1}, 1), encoding), "token 2 is the id 4294967295");
}

TEST_F(BadTokenFile, AnotherTokenizer) {
  const fs::path path = write_ours(folder, ids);
  Encoding encoding = bytes_encoding();
  encoding.tokenizer = &kBytesAfterBegin;
  const std::string message = error_of<FormatError>([&] { open_data({path}, encoding); });
  expect_says(message, path.string());
  expect_says(message, "another tokenizer (of 257 tokens) than 'bytes after begin' (of 258)");
  expect_says(message, "--tokenizer");
}

TEST(TokenFileWriter, WritesWideIdsAndManyOfThem) {
  class Wide final : public Tokenizer {
   public:
    std::vector<std::int32_t> encode(std::string_view) const override { return {}; }
    std::string decode(std::span<const std::int32_t>) const override { return {}; }
    std::int32_t vocabulary() const override { return 65537; }
    std::int32_t end_of_text() const override { return 65536; }
    std::string name() const override { return "wide"; }
    std::optional<std::int32_t> id_of(std::string_view) const override { return std::nullopt; }
  };
  const TemporaryFolder folder;
  const Wide wide;
  std::vector<std::int32_t> ids(600000);  // more than is gathered before a write
  std::iota(ids.begin(), ids.end(), 0);
  for (std::int32_t& id : ids) id %= 65537;
  const fs::path path = write_ours(folder, ids, wide);
  const DataSet data = open_data({path}, {.tokenizer = &wide, .vocabulary = 65537, .chat = {}},
                                 {.window_tokens = 1 << 20});
  EXPECT_EQ(data.read(0).tokens, ids);
  EXPECT_EQ(fs::file_size(path), 128 + 4 * ids.size());
}

// Promise 4: a crash at any moment leaves no file that looks whole.
TEST(TokenFileWriter, PublishesAllOrNothing) {
  const std::vector<std::int32_t> ids = some_ids(1000);
  for (std::int64_t crash = 1;; ++crash) {
    const TemporaryFolder folder;
    io::PosixFileSystem disk;
    io::FaultFileSystem files(disk, folder.path());
    files.crash_at(crash);
    bool finished = false;
    try {
      TokenFileWriter writer(files, folder.path() / "a.tokens", kBytes);
      writer.write(ids);
      writer.finish();
      finished = true;
    } catch (const IoError&) {
    }
    files.after_each_loss([&](const std::string& what) {
      SCOPED_TRACE(fmt::format("crash at {}, {}", crash, what));
      const bool there = fs::exists(folder.path() / "a.tokens");
      EXPECT_TRUE(there || !finished);
      if (there) {
        EXPECT_EQ(open_data({folder.path() / "a.tokens"}).read(0).tokens, ids);
      }
    });
    if (finished) {
      EXPECT_GT(crash, 4);
      return;
    }
  }
}

TEST(TokenFileWriter, LeavesNothingWhenItIsNotFinished) {
  const TemporaryFolder folder;
  io::PosixFileSystem files;
  { TokenFileWriter(files, folder.path() / "a.tokens", kBytes).write(some_ids(10)); }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

}  // namespace
}  // namespace ebb::text
