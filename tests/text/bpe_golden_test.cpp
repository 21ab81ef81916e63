// Tokenizers of every family against the tokenizers library: the same ids for thousands of hard
// strings, and the same text back. tools/golden/README.md says what the files hold.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hard_strings.h"
#include "paths.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/utf8_stream.h"

namespace ebb::text {
namespace {

const std::filesystem::path kFolder = golden_folder("tokenizers");

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return text.str();
}

struct Golden {
  Json json = parse_json(read(kFolder / "golden.json"), "golden.json");
  std::vector<std::string> strings = hard_strings(json);
};

const Golden& golden() {
  static const Golden all;
  return all;
}

// Readable, and exact: what is not printable ASCII is escaped.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 400)) {
    const bool plain = c >= ' ' && c <= '~' && c != '\\';
    out += plain ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + (text.size() > 400 ? fmt::format("... ({} bytes)", text.size()) : "");
}

std::uint32_t hash_of(const std::vector<std::int32_t>& ids, std::string_view text) {
  const auto count = static_cast<std::uint32_t>(ids.size());
  std::uint32_t hash = fnv1a({reinterpret_cast<const char*>(&count), sizeof count});
  hash = fnv1a({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]}, hash);
  return fnv1a(text, hash);
}

TEST(HardStrings, AreThoseOfTheScript) {
  std::string all;
  for (const std::string& text : golden().strings) all += text;
  ASSERT_EQ(fnv1a(all), golden().json["strings_hash"].get<std::uint32_t>());
  ASSERT_GE(golden().strings.size(), 10'000u);
}

class BpeGolden : public testing::TestWithParam<const char*> {
 protected:
  const Json& family() const { return golden().json["families"][GetParam()]; }
  const bpe::BpeTokenizer tokenizer{read(kFolder / (std::string(GetParam()) + ".json")), GetParam(),
                                    ""};
};

TEST_P(BpeGolden, AgreesOnEveryHardString) {
  const std::string hashes = read(kFolder / (std::string(GetParam()) + ".hashes"));
  ASSERT_EQ(hashes.size(), golden().strings.size() * sizeof(std::uint32_t));
  int failures = 0;
  for (std::size_t i = 0; i < golden().strings.size(); ++i) {
    const std::string& text = golden().strings[i];
    const std::vector<std::int32_t> ids = tokenizer.encode(text);
    // The library makes a string of the bytes: what is not UTF-8 is replaced.
    Utf8Stream stream;
    std::string back = stream.feed(tokenizer.decode(ids));
    back += stream.finish();
    std::uint32_t expected;
    std::memcpy(&expected, hashes.data() + i * sizeof expected, sizeof expected);
    if (hash_of(ids, back) == expected) continue;
    std::string theirs = "not kept for this string";
    if (i < family()["ids"].size()) theirs = family()["ids"][i].dump();
    ADD_FAILURE() << "string " << i << ": " << shown(text) << "\n  our ids "
                  << fmt::format("{}", ids) << "\n  theirs  " << theirs << "\n  decoded "
                  << shown(back);
    if (++failures == 5) FAIL() << "more are not shown";
  }
}

TEST_P(BpeGolden, DecodesTokenByTokenToTheSameText) {
  for (std::size_t i = 0; i < golden().strings.size(); i += 7) {
    const std::vector<std::int32_t> ids = tokenizer.encode(golden().strings[i]);
    std::string text;
    for (std::size_t k = 0; k < ids.size(); ++k) {
      const std::span<const std::int32_t> one(&ids[k], 1);
      text += k == 0 ? tokenizer.decode(one) : tokenizer.decode_next(one);
    }
    ASSERT_EQ(text, tokenizer.decode(ids)) << "string " << i << ": " << shown(golden().strings[i]);
  }
}

// Text that goes on from other text gets no space in front, whatever the family.
TEST_P(BpeGolden, ContinuesATextWithoutASpace) {
  for (const std::string_view text : {"the fox", " the fox", "ck brown"}) {
    if (tokenizer.decode(tokenizer.encode(text)) != text) continue;  // some lose spaces anyway
    EXPECT_EQ(tokenizer.decode_next(tokenizer.encode_next(text)), text) << shown(text);
  }
}

TEST_P(BpeGolden, KnowsItsSizeAndWhatItPutsAroundTexts) {
  EXPECT_EQ(tokenizer.vocabulary(), family()["vocabulary"]);
  EXPECT_EQ(tokenizer.prefix(), family()["prefix"].get<std::vector<std::int32_t>>());
  EXPECT_EQ(tokenizer.suffix(), family()["suffix"].get<std::vector<std::int32_t>>());
}

INSTANTIATE_TEST_SUITE_P(Families, BpeGolden,
                         testing::Values("gpt2", "llama3", "qwen2", "llama2", "mistral", "gemma",
                                         "tekken", "pieces", "unknown"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ebb::text
