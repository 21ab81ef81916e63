#include "text/bpe/bpe_tokenizer.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "ebb/error.h"
#include "small_tokenizer.h"
#include "temporary_folder.h"

namespace ebb::text {
namespace {

using Ids = std::vector<std::int32_t>;

TEST(BpeTokenizer, EncodesAndDecodes) {
  const auto tokenizer = load(small_tokenizer());
  EXPECT_EQ(tokenizer->encode(""), Ids());
  EXPECT_EQ(tokenizer->encode("abcab"), (Ids{4, 2, 4}));
  EXPECT_EQ(tokenizer->encode("<s>ab</s>"), (Ids{5, 4, 6}));
  EXPECT_EQ(tokenizer->encode("a?b"), (Ids{4})) << "an unknown character vanishes";
  EXPECT_EQ(tokenizer->decode(Ids{5, 4, 3, 2}), "<s>ab c");
  EXPECT_EQ(tokenizer->vocabulary(), 7);
  EXPECT_EQ(tokenizer->end_of_text(), 6);
  EXPECT_EQ(tokenizer->id_of("ab"), 4);
  EXPECT_EQ(tokenizer->id_of("<s>"), 5);
  EXPECT_EQ(tokenizer->id_of("x"), std::nullopt);
  EXPECT_TRUE(tokenizer->prefix().empty());
}

TEST(BpeTokenizer, RefusesToDecodeIdsOutsideTheVocabulary) {
  const auto tokenizer = load(small_tokenizer());
  for (const std::int32_t id : {-1, 7, 1 << 30}) {
    const std::string message = error_of<ConfigError>([&] { tokenizer->decode(Ids{id}); });
    expect_says(message, std::to_string(id));
    expect_says(message, "0 to 6");
  }
}

TEST(BpeTokenizer, AMissingIdDecodesToNothing) {
  Json json = small_tokenizer();
  json["model"]["vocab"]["d"] = 9;
  json["added_tokens"] = Json::parse(R"([{"id": 6, "content": "</s>", "special": true}])");
  const auto tokenizer = load(json);
  EXPECT_EQ(tokenizer->vocabulary(), 10);
  EXPECT_EQ(tokenizer->decode(Ids{7, 9, 8}), "d");
}

TEST(BpeTokenizer, TheDigestIsOfWhatChangesEncodings) {
  const std::string digest = load(small_tokenizer())->digest();
  const auto digest_with = [&](const std::function<void(Json&)>& change) {
    Json json = small_tokenizer();
    change(json);
    return load(json)->digest();
  };
  EXPECT_EQ(digest, bpe::BpeTokenizer(small_tokenizer().dump(4), "another name", "").digest());
  EXPECT_EQ(digest, digest_with([](Json& j) { j["decoder"] = nullptr; }));
  EXPECT_NE(digest, digest_with([](Json& j) { j["normalizer"] = Json{{"type", "NFC"}}; }));
  EXPECT_NE(digest, digest_with([](Json& j) { j["added_tokens"][0]["lstrip"] = true; }));
  EXPECT_NE(digest, digest_with([](Json& j) { j["model"]["merges"] = Json::array(); }));
  EXPECT_NE(digest, bpe::BpeTokenizer(small_tokenizer().dump(), "x", "<s>").digest());
}

struct Refusal {
  const char* name;
  const char* place;  // a JSON pointer to what is changed
  const char* value;
  std::vector<const char*> says;
};

void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

const Refusal kRefusals[] = {
    {"Unigram", "/model/type", "\"Unigram\"", {"model", "'Unigram'", "BPE is"}},
    {"WordPiece", "/model/type", "\"WordPiece\"", {"'WordPiece'"}},
    {"Dropout", "/model/dropout", "0.1", {"dropout"}},
    {"Suffix", "/model/end_of_word_suffix", "\"</w>\"", {"end_of_word_suffix", "'</w>'"}},
    {"Prefix", "/model/continuing_subword_prefix", "\"##\"", {"subword_prefix", "'##'"}},
    {"NoVocabulary", "/model/vocab", "{}", {"model.vocab", "tokens"}},
    {"VocabularyList", "/model/vocab", "[1]", {"model.vocab"}},
    {"NegativeId", "/model/vocab/a", "-1", {"'a'", "-1"}},
    {"GiganticId", "/model/vocab/a", "2000000000", {"'a'", "2000000000"}},
    {"HugeId", "/model/vocab/a", "18446744073709551615", {"'a'", "18446744073709551615"}},
    {"TextId", "/model/vocab/a", "\"0\"", {"'a'"}},
    {"TakenId", "/model/vocab/a", "1", {"the id 1 of another"}},
    {"MergeOfUnknown", "/model/merges/0", R"(["a", "x"])", {"merge 0", "'x'", "damaged"}},
    {"MergeIntoUnknown", "/model/merges/0", R"(["b", "c"])", {"merge 0", "'bc'"}},
    {"MergeOfThree", "/model/merges/0", "\"a b c\"", {"merge 0", "two tokens"}},
    {"MergeOfOne", "/model/merges/0", "\"ab\"", {"merge 0", "two tokens"}},
    {"MergeOfNumbers", "/model/merges/0", "[1, 2]", {"merge 0", "two tokens"}},
    {"NoMerges", "/model/merges", "7", {"model.merges", "list"}},
    {"AddedId", "/added_tokens/0/id", "17", {"'<s>'", "17", "next free id is 5"}},
    {"AddedNegative", "/added_tokens/0/id", "-1", {"added_tokens[0].id", "-1"}},
    {"AddedHuge", "/added_tokens/0/id", "99999999999", {"added_tokens[0].id"}},
    {"AddedTwice", "/added_tokens/1/content", "\"<s>\"", {"'<s>'", "twice"}},
    {"AddedEmpty", "/added_tokens/0/content", "\"\"", {"without content"}},
    {"AddedFlag", "/added_tokens/0/lstrip", "1", {"lstrip", "true or false"}},
    {"Normalizer", "/normalizer", R"({"type": "BertNormalizer"})", {"'BertNormalizer'", "NFC"}},
    {"Precompiled", "/normalizer", R"({"type": "Precompiled"})", {"'Precompiled'"}},
    {"PreTokenizer", "/pre_tokenizer", R"({"type": "Punctuation"})", {"'Punctuation'", "Split"}},
    {"Behavior",
     "/pre_tokenizer",
     R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Eaten"})",
     {"'Eaten'"}},
    {"EmptyString",
     "/pre_tokenizer",
     R"({"type": "Split", "pattern": {"String": ""}, "behavior": "Isolated"})",
     {"empty string"}},
    {"EmptyMatch",
     "/pre_tokenizer",
     R"({"type": "Split", "pattern": {"Regex": "a*"}, "behavior": "Isolated"})",
     {"a*", "match nothing"}},
    {"BadPattern",
     "/pre_tokenizer",
     R"({"type": "Split", "pattern": {"Regex": "(a"}, "behavior": "Isolated"})",
     {"(a", "PCRE2", "parenthesis"}},
    {"Metaspace",
     "/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "__"})",
     {"replacement", "one character"}},
    {"Scheme",
     "/pre_tokenizer",
     R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
     {"'last'"}},
    {"PostProcessor", "/post_processor", R"({"type": "BertProcessing"})", {"'BertProcessing'"}},
    {"TemplateName",
     "/post_processor",
     R"({"type": "TemplateProcessing", "special_tokens": {},
         "single": [{"SpecialToken": {"id": "<x>"}}, {"Sequence": {"id": "A"}}]})",
     {"'<x>' is missing"}},
    {"TemplateId",
     "/post_processor",
     R"({"type": "TemplateProcessing", "special_tokens": {"<x>": {"ids": [7]}},
         "single": [{"SpecialToken": {"id": "<x>"}}, {"Sequence": {"id": "A"}}]})",
     {"from 0 to 6", "7"}},
    {"TemplateWithoutText",
     "/post_processor",
     R"({"type": "TemplateProcessing", "special_tokens": {}, "single": []})",
     {"no place for the text"}},
    {"Decoder", "/decoder", R"({"type": "CTC"})", {"'CTC'", "ByteFallback"}},
    {"DecoderOrder",
     "/decoder",
     R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
         {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}]})",
     {"'Replace'", "joins"}},
    {"DecoderEnd",
     "/decoder",
     R"({"type": "Sequence", "decoders": [{"type": "Fuse"},
         {"type": "Strip", "content": " ", "start": 0, "stop": 1}]})",
     {"'Strip'", "joins"}},
};

class BpeRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(BpeRefusals, NameTheFileAndTheThing) {
  Json json = small_tokenizer();
  json[Json::json_pointer(GetParam().place)] = Json::parse(GetParam().value);
  const std::string message = error_of<FormatError>([&] { load(json); });
  expect_says(message, "'x/tokenizer.json'");
  for (const char* part : GetParam().says) expect_says(message, part);
}

INSTANTIATE_TEST_SUITE_P(All, BpeRefusals, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BpeTokenizer, RefusesAVocabularyWithoutAnEndOfText) {
  Json json = small_tokenizer();
  json["added_tokens"] = Json::array();
  expect_says(error_of<FormatError>([&] { load(json); }), "eos_token");
  const std::string message =
      error_of<FormatError>([&] { bpe::BpeTokenizer(small_tokenizer().dump(), "'x'", "<|end|>"); });
  expect_says(message, "'<|end|>'");
}

TEST(BpeTokenizer, RefusesWhatIsNotJsonOrTooDeep) {
  expect_says(error_of<FormatError>([] { bpe::BpeTokenizer("{\"model\":", "'x'", ""); }),
              "not JSON");
  const std::string deep(100'000, '[');
  expect_says(error_of<FormatError>([&] { bpe::BpeTokenizer(deep, "'x'", ""); }), "deeper");
  expect_says(error_of<FormatError>([] { bpe::BpeTokenizer("[]", "'x'", ""); }), "object");
}

TEST(BpeTokenizer, RefusesEndlessLists) {
  Json json = small_tokenizer();
  Json steps = Json::array();
  for (int i = 0; i < 1000; ++i) steps.push_back({{"type", "NFC"}});
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  expect_says(error_of<FormatError>([&] { load(json); }), "more than 32 steps");
  json["normalizer"] = nullptr;
  json["added_tokens"][0]["content"] = std::string(2000, 'x');
  expect_says(error_of<FormatError>([&] { load(json); }), "2000 bytes");
}

TEST(BpeTokenizer, RefusesWhatGrowsWithEveryStep) {
  Json json = small_tokenizer();
  const Json spell = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::array()}};
  for (int i = 0; i < 32; ++i) json["pre_tokenizer"]["pretokenizers"].push_back(spell);
  const auto tokenizer = load(json);
  expect_says(error_of<FormatError>([&] { tokenizer->encode("\u00e9"); }), "far more of a text");

  json = small_tokenizer();
  json["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(60, 'b')}};
  json["added_tokens"][0]["content"] = std::string(20, 'a');
  json["added_tokens"][0]["normalized"] = true;
  expect_says(error_of<FormatError>([&] { load(json); }), "1200 bytes when normalized");

  json = small_tokenizer();
  Json single = Json::array({{{"Sequence", {{"id", "A"}}}}});
  for (int i = 0; i < 30; ++i) single.push_back({{"SpecialToken", {{"id", "<s>"}}}});
  json["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", single},
                            {"special_tokens", {{"<s>", {{"ids", std::vector<int>(40, 5)}}}}}};
  expect_says(error_of<FormatError>([&] { load(json); }), "more than 1024 tokens");
}

TEST(BpeTokenizer, ErrorsCanBePrinted) {
  Json json = small_tokenizer();
  json["normalizer"] = {{"type", "\x1b[2J" + std::string(10'000, 'x')}};
  const std::string message = error_of<FormatError>([&] { load(json); });
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_LT(message.size(), 1000u);
}

TEST(BpeTokenizer, RefusesReplacementsThatFillTheMemory) {
  Json json = small_tokenizer();
  const Json step = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", std::string(1000, 'a')}};
  json["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", Json::array({step, step, step, step})}};
  const auto tokenizer = load(json);
  expect_says(error_of<FormatError>([&] { tokenizer->encode(std::string(100'000, 'a')); }),
              "'x/tokenizer.json'.normalizer");
  json = small_tokenizer();
  json["decoder"] = step;
  expect_says(error_of<FormatError>([&] { load(json); }), "'a'");
}

TEST(BpeTokenizer, APatternThatExplodesIsAnErrorNotAHang) {
  Json json = small_tokenizer();
  json["pre_tokenizer"] = Json::parse(
      R"({"type": "Split", "pattern": {"Regex": "(?:a|ab?|aa?)+[cd]"}, "behavior": "Isolated"})");
  const auto tokenizer = load(json);
  EXPECT_EQ(tokenizer->encode("ab"), Ids{4});
  const std::string message =
      error_of<FormatError>([&] { tokenizer->encode(std::string(5000, 'a') + "b"); });
  expect_says(message, "'x/tokenizer.json'");
  expect_says(message, "steps");
}

TEST(BpeTokenizer, AnUnknownTokenThatIsNoTokenIsAnErrorOnlyWhereItIsNeeded) {
  Json json = small_tokenizer();
  json["model"]["unk_token"] = "<unk>";
  const auto tokenizer = load(json);
  EXPECT_EQ(tokenizer->encode("ab"), Ids{4});
  expect_says(error_of<FormatError>([&] { tokenizer->encode("a?"); }), "'?'");
}

TEST(BpeTokenizer, AddsUpWhatSeveralTemplatesPutAround) {
  Json json = small_tokenizer();
  json["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
    {"type": "TemplateProcessing", "special_tokens": {"<s>": {"ids": [5]}},
     "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]},
    {"type": "TemplateProcessing", "special_tokens": {"x": {"ids": [0, 1]}, "</s>": {"ids": [6]}},
     "single": [{"SpecialToken": {"id": "x"}}, {"Sequence": {"id": "A"}},
                {"SpecialToken": {"id": "</s>"}}]}]})");
  EXPECT_EQ(load(json)->prefix(), (Ids{0, 1, 5}));
  EXPECT_EQ(load(json)->suffix(), (Ids{6}));
}

TEST(BpeTokenizer, WithoutADecoderTokensAreJoinedWithSpaces) {
  Json json = small_tokenizer();
  json["decoder"] = nullptr;
  EXPECT_EQ(load(json)->decode(Ids{0, 4, 2}), "a ab c");
  EXPECT_EQ(load(json)->decode_next(Ids{4}), " ab");
}

TEST(BpeTokenizer, ReadsTheOldestFiles) {
  Json json = small_tokenizer();
  json["model"].erase("type");
  json["model"]["merges"] = Json::parse(R"(["a b"])");
  json["model"]["continuing_subword_prefix"] = "";
  json["pre_tokenizer"] =
      Json::parse(R"({"type": "Metaspace", "replacement": " ", "add_prefix_space": true})");
  EXPECT_EQ(load(json)->encode("ab"), (Ids{3, 4}));
}

}  // namespace
}  // namespace ebb::text
