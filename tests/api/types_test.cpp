// Every option that is a word: to the enum and back, and what is said of another word.
#include "ebb/types.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "io/failure.h"

namespace ebb {
namespace {

using testing::HasSubstr;

template <class Enum>
class Words : public testing::Test {};

using AllEnums =
    testing::Types<DeviceKind, FloatType, OptimizerRule, StateFormat, LearningRateSchedule,
                   StatePlacement, VocabularyUse, RowPacking, LossOn, OnBadData, BenchTable>;
TYPED_TEST_SUITE(Words, AllEnums);

TYPED_TEST(Words, GoThereAndBack) {
  std::set<std::string_view> seen;
  ASSERT_GE(words_of<TypeParam>().size(), 2u);
  for (const Word<TypeParam>& known : words_of<TypeParam>()) {
    EXPECT_EQ(parse_word<TypeParam>(known.word, "--flag"), known.value);
    EXPECT_EQ(to_word(known.value), known.word);
    EXPECT_TRUE(seen.insert(known.word).second) << known.word;
  }
}

TYPED_TEST(Words, OthersAreRefusedWithAllThereAre) {
  try {
    parse_word<TypeParam>("moon", "--flag");
    FAIL() << "accepted";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.flag(), "--flag");
    EXPECT_THAT(error.what(), HasSubstr("--flag 'moon': expected "));
    for (const Word<TypeParam>& known : words_of<TypeParam>()) {
      EXPECT_THAT(error.what(), HasSubstr(std::string(known.word)));
    }
  }
}

TEST(BlockWords, AreNoneAllAutoOrANumber) {
  EXPECT_EQ(parse_blocks("auto", "--recompute", kRecomputeWords), Blocks());
  EXPECT_EQ(parse_blocks("none", "--recompute", kRecomputeWords), Blocks::none());
  EXPECT_EQ(parse_blocks("block", "--recompute", kRecomputeWords), Blocks::all());
  EXPECT_EQ(parse_blocks("7", "--recompute", kRecomputeWords), Blocks(7));
  for (const char* bad : {"", "-1", "7 ", "0x7", "all", "99999999999999999999"}) {
    EXPECT_THROW(parse_blocks(bad, "--recompute", kRecomputeWords), ConfigError) << bad;
  }
  for (const Blocks& blocks : {Blocks(), Blocks::none(), Blocks::all(), Blocks(7)}) {
    for (const BlockWords& words :
         {kWeightWords, kGradientSumWords, kRecomputeWords, kSaveCheapWords, kActivationWords}) {
      EXPECT_EQ(parse_blocks(to_word(blocks, words), "--x", words), blocks);
    }
  }
  EXPECT_EQ(Blocks().of(12), std::nullopt);
  EXPECT_EQ(Blocks::all().of(12), 12);
  EXPECT_EQ(Blocks(7).of(5), 5);
  EXPECT_EQ(Blocks(7).of(12), 7);
}

TEST(Errors, CarryWhatTheirTextsSay) {
  EXPECT_EQ(ConfigError("--eval-share and --eval-data: give one").flag(), "--eval-share");
  EXPECT_EQ(ConfigError("--seed 5: no").flag(), "--seed");
  EXPECT_EQ(ConfigError("a model without a flag").flag(), "");
  try {
    io::throw_failure("write", "/scratch/file", 28, io::Transfer{4096, 512, 12});
  } catch (const IoError& error) {
    EXPECT_EQ(error.path(), "/scratch/file");
    EXPECT_EQ(error.offset(), 4096);
  }
  EXPECT_EQ(IoError("no path is known").path(), "");
  EXPECT_EQ((Shortfall{"host", 10, 12}).missing(), 0);
  EXPECT_TRUE(OutOfBudget("too much").shortfalls().empty());
}

}  // namespace
}  // namespace ebb
