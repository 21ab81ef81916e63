// Tokenizers under long texts, many threads and damaged files.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "ebb/error.h"
#include "hard_strings.h"
#include "paths.h"
#include "scale.h"
#include "text/bpe/bpe_tokenizer.h"

namespace ebb::text {
namespace {

std::string read(const std::string& name) {
  const auto path = golden_folder("tokenizers") / name;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_TRUE(file) << path;
  return text.str();
}

bpe::BpeTokenizer family(const std::string& name) { return {read(name + ".json"), name, ""}; }

std::string repeat(std::string_view part, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

class LongTexts : public testing::TestWithParam<const char*> {};

// Time must grow as the text does, give or take a logarithm: eight times the text in far less than
// the 64 times that looking at all of it again for each part would take. Processor time, a generous
// bound and three attempts, because machines are shared: a neighbour that fills the caches makes
// the longer one slower, and a quadratic one is too slow every time.
TEST_P(LongTexts, TakeTimeInProportion) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer's own memory outgrows caches before the text does";
#endif
  const bpe::BpeTokenizer tokenizer = family(GetParam());
  const std::size_t bytes = small_scale() ? 16'384 : 131'072;
  for (const std::string part :
       {"a", " ", "\n", "ab", "1", "<", "\xc3\xa9", "\xf0\x9f\x98\x80", "a\xcc\x81\xcc\xa3",
        "\xcc\x81\xcc\xa3", "\xe0\xb8\xa0", "\xff", "the ", "<s>", "\xe2\x96\x81", "x1 \t"}) {
    const auto seconds = [&](std::size_t size) {
      const std::string text = repeat(part, size) + "a";
      const std::clock_t start = std::clock();
      EXPECT_FALSE(tokenizer.encode(text).empty());
      return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    };
    double once = 0, eight = 1;
    for (int attempt = 0; attempt < 3 && eight >= 32 * once + 0.25; ++attempt) {
      once = seconds(bytes);
      eight = seconds(8 * bytes);
    }
    EXPECT_LT(eight, 32 * once + 0.25) << "of '" << part << "'";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, LongTexts,
                         testing::Values("gpt2", "llama3", "qwen2", "llama2", "mistral", "gemma",
                                         "tekken", "unknown"),
                         [](const auto& info) { return std::string(info.param); });

TEST(BpeTokenizer, ThreadsEncodeAtTheSameTime) {
  const Json golden = parse_json(read("golden.json"), "golden.json");
  const std::vector<std::string> strings = hard_strings(golden);
  const std::size_t count = small_scale() ? 500 : 4000;
  for (const std::string name : {"qwen2", "llama2", "pieces"}) {
    const bpe::BpeTokenizer tokenizer = family(name);
    std::vector<std::vector<std::int32_t>> expected;
    for (std::size_t i = 0; i < count; ++i) expected.push_back(tokenizer.encode(strings[i]));
    std::vector<std::size_t> wrong(8, 0);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < wrong.size(); ++t) {
      threads.emplace_back([&, t] {
        for (std::size_t k = 0; k < count; ++k) {
          const std::size_t i = (k * (2 * t + 1) + 97 * t) % count;
          if (tokenizer.encode(strings[i]) != expected[i]) ++wrong[t];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, std::vector<std::size_t>(wrong.size(), 0)) << name;
  }
}

// Whatever is done to a file, it is refused or it works.
TEST(BpeTokenizer, DamagedFilesAreRefusedOrWork) {
  const std::string text =
      "The <s>word</s> \xe4\xbd\xa0\xe5\xa5\xbd 123\n\n  \xf0\x9f\x98\x80 don't\xff";
  const int rounds = small_scale() ? 40 : 400;
  int refused = 0;
  int worked = 0;
  for (const std::string name :
       {"gpt2", "llama3", "qwen2", "llama2", "mistral", "gemma", "pieces"}) {
    const std::string whole = read(name + ".json");
    // Most of a file is vocabulary; the settings before it get half of the changes.
    const std::size_t settings = whole.find("\"vocab\"");
    std::mt19937 random(7);
    for (int round = 0; round < rounds; ++round) {
      std::string damaged = whole;
      const std::size_t range = round % 2 == 0 ? settings : whole.size();
      const std::size_t at = random() % range;
      switch (random() % 4) {
        case 0: damaged[at] = static_cast<char>(random()); break;
        case 1: damaged.erase(at, 1 + random() % 20); break;
        case 2: damaged.insert(at, whole.substr(random() % range, random() % 30)); break;
        default: damaged[at] = "0123456789\"{}[],:-"[random() % 18];
      }
      if (round % 37 == 0) damaged.resize(at);
      try {
        const bpe::BpeTokenizer tokenizer(damaged, name, "");
        const std::vector<std::int32_t> ids = tokenizer.encode(text);
        for (const std::int32_t id : ids) ASSERT_LT(id, tokenizer.vocabulary());
        tokenizer.decode(ids);
        ++worked;
      } catch (const FormatError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(worked, 0);
}

}  // namespace
}  // namespace ebb::text
