// Plain text, cut into passages.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "data_cases.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> passages_of(const fs::path& path, Bytes bytes) {
  const DataSet data = open_data({path}, bytes_encoding(), {.passage_bytes = bytes});
  std::vector<std::string> all;
  for (std::int64_t i = 0; i < data.items(); ++i) all.push_back(spell(data.read(i).tokens));
  return all;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

TEST(Passages, AreTheWholeText) {
  const TemporaryFolder folder;
  // Lines of every length, some longer than passages, some empty, with characters of several bytes.
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const CounterRng rng(seed, 1);
    const std::uint64_t size = rng.below(0, 3000) + 1;
    std::string text;
    for (std::uint64_t i = 1; text.size() < size; ++i) {
      const std::uint64_t kind = rng.below(i, 40);
      text += kind < 2 + seed % 4 ? "\n" : kind < 10 ? " " : kind < 12 ? "\xc3\xa9" : "x";
    }
    const fs::path path = folder.write("text", text);
    for (const Bytes bytes : {Bytes{1}, Bytes{2}, Bytes{7}, Bytes{64}, Bytes{1000}, Bytes{4096}}) {
      const std::vector<std::string> parts = passages_of(path, bytes);
      ASSERT_EQ(joined(parts), text + "|") << "seed " << seed << ", passages of " << bytes;
      for (const std::string& part : parts) {
        ASSERT_LE(part.size(), static_cast<std::size_t>(2 * bytes + 1));
        if (bytes >= 7) {
          ASSERT_NE(static_cast<unsigned char>(part[0]) & 0xc0, 0x80) << "seed " << seed;
        }
      }
    }
  }
}

TEST(Passages, BeginWhereATokenizerCutsAnyway) {
  const TemporaryFolder folder;
  const auto cut = [&](const std::string& text) {
    return passages_of(folder.write("text", text), 10);
  };
  using Parts = std::vector<std::string>;
  // At a line that is not indented, although an indented one comes first.
  EXPECT_EQ(cut("0123456789\n  in\nout"), (Parts{"0123456789\n  in\n", "out|"}));
  EXPECT_EQ(cut("0123456789\n\n\nout"), (Parts{"0123456789\n\n\n", "out|"}));
  // At a line if all are indented, at a space if there is no line, anywhere if there is neither.
  EXPECT_EQ(cut("0123456789ab\n  in"), (Parts{"0123456789ab\n", "  in|"}));
  EXPECT_EQ(cut("0123456789ab word"), (Parts{"0123456789ab", " word|"}));
  EXPECT_EQ(cut("0123456789abcdef"), (Parts{"0123456789", "abcdef|"}));
  EXPECT_EQ(cut("012345678\xc3\xa9"
                "bcdef"),
            (Parts{"012345678\xc3\xa9", "bcdef|"}));
  // The line that begins with the stretch.
  EXPECT_EQ(cut("012345678\nabc\ndef"), (Parts{"012345678\n", "abc\ndef|"}));
}

TEST(Passages, OnlyTheLastEndsTheText) {
  const TemporaryFolder folder;
  Encoding encoding = bytes_encoding();
  encoding.tokenizer = &kBytesAfterBegin;
  const DataSet data =
      open_data({folder.write("text", "one\ntwo\nthree\n")}, encoding, {.passage_bytes = 4});
  ASSERT_EQ(data.items(), 4);
  EXPECT_EQ(spell(data.read(0).tokens), "^one\n");
  EXPECT_EQ(data.read(0).next, Item::kUnknown);
  EXPECT_EQ(spell(data), "^one\ntwo\nthree\n|");
  EXPECT_EQ(data.read(3).next, Item::kNextItem);
}

TEST(Passages, AMarkOfUtf8IsNoText) {
  const TemporaryFolder folder;
  EXPECT_EQ(spell(open_data({folder.write("1", "\xef\xbb\xbftext")})), "text|");
  EXPECT_EQ(spell(open_data({folder.write("2", "\xef\xbb\xbf")})), "|");
}

TEST(Passages, OfASparseFileNeedNoMemory) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("huge", std::string(9000, 'x') + "\n");
  fs::resize_file(path, std::uintmax_t{1} << 42);
  const DataSet data = open_data({path});
  EXPECT_EQ(data.items(), std::int64_t{1} << 30);
  EXPECT_LT(data.memory_bytes(), 4 * kKiB);
  EXPECT_EQ(data.read((std::int64_t{1} << 30) - 1).tokens.size(), 4097u);
}

}  // namespace
}  // namespace ebb::text
