// A tokenizer says what it holds: limits count it.
#include <gtest/gtest.h>

#include "heap_watch.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/byte_tokenizer.h"
#include "text/made_tokenizer.h"

namespace ebb::text {
namespace {

TEST(TokenizerMemory, IsWhatTheHeapSays) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  for (const std::size_t tokens : {100, 5'000, 40'000}) {
    const std::string file = made_tokenizer(tokens);
    const HeapWatch heap;
    const bpe::BpeTokenizer tokenizer(file, "'x/tokenizer.json'", "");
    EXPECT_GE(tokenizer.memory_bytes(), heap.held()) << tokens;
    // Patterns, of which this one has none, are counted as a constant.
    EXPECT_LE(tokenizer.memory_bytes() - 256 * kKiB, heap.held() * 11 / 10 + 16 * kKiB) << tokens;
    // The engine refuses to read a file whose reading does not fit; see its factor.
    EXPECT_LE(heap.peak(), 24 * static_cast<Bytes>(file.size()) + kMiB) << tokens;
  }
}

TEST(TokenizerMemory, OfAThreadThatEncodesIsCountedToo) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  const bpe::BpeTokenizer tokenizer(made_tokenizer(5'000), "'x/tokenizer.json'", "");
  const std::string text(100, 'q');  // what grows with it is not meant
  const HeapWatch heap;
  for (int i = 0; i < 5; ++i) tokenizer.encode(text);
  EXPECT_GT(heap.held(), 0);
  EXPECT_LE(heap.held(), tokenizer.encoding_bytes());
}

TEST(TokenizerMemory, OfBytesIsNothing) {
  EXPECT_EQ(ByteTokenizer().memory_bytes(), 0);
  EXPECT_EQ(ByteTokenizer().encoding_bytes(), 0);
}

}  // namespace
}  // namespace ebb::text
