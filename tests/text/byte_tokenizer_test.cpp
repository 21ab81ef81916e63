#include "text/byte_tokenizer.h"

#include <gtest/gtest.h>

#include "ebb/error.h"
#include "temporary_folder.h"

namespace ebb::text {
namespace {

TEST(ByteTokenizer, RoundTripsEveryByte) {
  const ByteTokenizer tokenizer;
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  ASSERT_EQ(ids.size(), 256u);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(ids[byte], byte);
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(ByteTokenizer, RoundTripsValidAndInvalidUtf8) {
  const ByteTokenizer tokenizer;
  for (const std::string text : {"", "plain", "na\xc3\xafve \xf0\x9f\x8c\x8a", "cut \xf0\x9f\x8c",
                                 "\xff\xfe\x80 lone", "\xed\xa0\x80"}) {
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
  }
}

TEST(ByteTokenizer, EndOfTextIsTheLastIdAndDecodesToNothing) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.vocabulary(), 257);
  EXPECT_EQ(tokenizer.end_of_text(), 256);
  EXPECT_EQ(tokenizer.name(), "bytes");
  EXPECT_EQ(tokenizer.decode(std::vector<std::int32_t>{'a', 256, 'b'}), "ab");
}

TEST(ByteTokenizer, RefusesIdsOutsideTheVocabulary) {
  const ByteTokenizer tokenizer;
  for (const std::int32_t id : {-1, 257, 100000}) {
    const std::string message =
        error_of<ConfigError>([&] { (void)tokenizer.decode(std::span(&id, 1)); });
    expect_says(message, std::to_string(id));
    expect_says(message, "'bytes'");
    expect_says(message, "use the tokenizer the model was trained with");
  }
}

}  // namespace
}  // namespace ebb::text
