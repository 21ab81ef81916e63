// Tokenizers in GGUF files: byte-level ones are those of the tokenizer.json they came from, pieces
// with scores are joined as SentencePiece joins them.
#include "files/model/gguf_tokenizer.h"

#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/utf8.h"
#include "ebb/error.h"
#include "engine/made_gguf_models.h"
#include "files/made_gguf.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"
#include "paths.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/hard_strings.h"

namespace ebb::files {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class GgufTokenizer : public testing::Test {
 protected:
  text::TokenizerTexts texts(const MadeGguf& made) {
    write_text(files, path(), made.bytes());
    return gguf_tokenizer(GgufFiles(files, path()));
  }
  text::TokenizerFolder load(const MadeGguf& made) {
    return text::make_tokenizer(texts(made), path());
  }
  std::string refusal(const MadeGguf& made) {
    try {
      load(made);
    } catch (const Error& error) {
      return error.what();
    }
    return "(none)";
  }
  std::string golden(const std::string& name) {
    return io::read_text(files, golden_folder("tokenizers") / name, 16 * kMiB);
  }
  std::filesystem::path path() const { return folder / "model.gguf"; }

  io::PosixFileSystem files;
  io::TempFolder folder;
};

TEST_F(GgufTokenizer, ByteLevelOnesAreThoseTheyCameFrom) {
  const std::vector<std::string> strings =
      text::hard_strings(parse_json(golden("golden.json"), "golden.json"));
  for (const auto& [name, pre] : {std::pair{"gpt2", "gpt-2"},
                                  {"llama3", "llama-bpe"},
                                  {"qwen2", "qwen2"},
                                  {"tekken", "tekken"}}) {
    const std::string json = golden(std::string(name) + ".json");
    const text::bpe::BpeTokenizer expected(json, name, "");
    MadeGguf made;
    engine::add_byte_level(made, parse_json(json, name), pre);
    made.value("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(expected.end_of_text()));
    made.value("tokenizer.ggml.add_bos_token", false);
    const text::TokenizerFolder found = load(made);
    EXPECT_EQ(found.tokenizer->vocabulary(), expected.vocabulary()) << name;
    EXPECT_EQ(found.tokenizer->end_of_text(), expected.end_of_text()) << name;
    EXPECT_THAT(found.tokenizer->prefix(), ElementsAre()) << name;
    for (std::size_t i = 0; i < strings.size(); i += 3) {
      const std::vector<std::int32_t> ids = found.tokenizer->encode(strings[i]);
      ASSERT_EQ(ids, expected.encode(strings[i])) << name << " string " << i;
      ASSERT_EQ(found.tokenizer->decode(ids), expected.decode(ids)) << name << " string " << i;
    }
  }
}

// Pieces with their scores, the special ones first.
struct Pieces {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>"};
  std::vector<float> scores = {0, 0, 0};
  std::vector<std::int32_t> types = {2, 3, 3};

  Pieces() {
    for (int byte = 0; byte < 256; ++byte) add(fmt::format("<0x{:02X}>", byte), 0, 6);
    float score = -1;
    for (const char* piece :
         {"\u2581t", "he", "\u2581the", "in",         "er",       "re",  "an",
          "\u2581a", "th", "the",       "ent",        "en",       "nt",  "\u2581\u2581",
          "ing",     "ng", "ther",      "\u2581ther", "\u2581in", "hen", "at"}) {
      add(piece, score--, 1);
    }
    for (const char* piece : {"\u2581", "t", "h", "e", "i", "n", "r", "a", "g", "\u00e9"}) {
      add(piece, score--, 1);
    }
  }
  void add(const std::string& token, float score, std::int32_t type) {
    tokens.push_back(token);
    scores.push_back(score);
    types.push_back(type);
  }
  MadeGguf made() const {
    MadeGguf made;
    made.value("tokenizer.ggml.model", "llama");
    made.list("tokenizer.ggml.tokens", tokens).list("tokenizer.ggml.scores", scores);
    made.list("tokenizer.ggml.token_type", types);
    made.value("tokenizer.ggml.bos_token_id", std::uint32_t{1});
    made.value("tokenizer.ggml.eos_token_id", std::uint32_t{2});
    made.value("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
    return made;
  }

  // By the definition: of all neighbours that are a piece together, those with the highest score
  // are joined, the leftmost of equals, until none is left.
  std::vector<std::int32_t> encode(const std::string& text) const {
    std::map<std::string, std::size_t> normal;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (types[i] == 1) normal[tokens[i]] = i;
    }
    std::vector<std::string> parts;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at;
      utf8::next_character(text, at);
      parts.push_back(text.substr(begin, at - begin));
      if (parts.back() == " ") parts.back() = "\u2581";
    }
    parts.insert(parts.begin(), "\u2581");
    while (true) {
      std::size_t best = parts.size();
      float score = 0;
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = normal.find(parts[i] + parts[i + 1]);
        if (found == normal.end()) continue;
        if (best < parts.size() && scores[found->second] <= score) continue;
        best = i;
        score = scores[found->second];
      }
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    std::vector<std::int32_t> ids;
    for (const std::string& part : parts) {
      if (const auto found = normal.find(part); found != normal.end()) {
        ids.push_back(static_cast<std::int32_t>(found->second));
      } else {
        for (const char c : part) ids.push_back(3 + static_cast<unsigned char>(c));
      }
    }
    return ids;
  }
};

TEST_F(GgufTokenizer, PiecesAreJoinedByScore) {
  const Pieces pieces;
  const text::TokenizerFolder found = load(pieces.made());
  EXPECT_THAT(found.tokenizer->prefix(), ElementsAre(1));
  EXPECT_EQ(found.tokenizer->end_of_text(), 2);
  EXPECT_EQ(found.special_tokens.at("bos_token"), "<s>");
  std::uint64_t state = 7;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::uint64_t n = text::splitmix(state) % 20 + 1; n > 0; --n) {
      const char* letters[] = {"t", "h", "e", " ", "i", "n", "g", "r", "a", "\u00e9", "z"};
      text += letters[text::splitmix(state) % 11];
    }
    const std::vector<std::int32_t> ids = found.tokenizer->encode(text);
    ASSERT_EQ(ids, pieces.encode(text)) << "text " << i << ": '" << text << "'";
    ASSERT_EQ(found.tokenizer->decode(ids), text) << "text " << i;
  }
  EXPECT_THAT(found.tokenizer->encode("</s>"), ElementsAre(2));
}

TEST_F(GgufTokenizer, ChatTemplateAndEnds) {
  Pieces pieces;
  pieces.add("<|im_end|>", 0, 3);
  MadeGguf made = pieces.made();
  made.value("tokenizer.chat_template", "{{ messages[0]['content'] }}{{ eos_token }}");
  const text::TokenizerFolder found = load(made);
  ASSERT_TRUE(found.chat);
  EXPECT_EQ(found.chat->render(Json::parse(R"([{"role": "user", "content": "hi"}])"),
                               found.special_tokens, false),
            "hi</s>");
  Json config = Json::object();
  add_gguf_token_ids(GgufFiles(files, path()), config);
  EXPECT_EQ(config["bos_token_id"], 1);
  EXPECT_EQ(config["eos_token_id"], Json({2, pieces.tokens.size() - 1}));
}

TEST_F(GgufTokenizer, WhatIsRefused) {
  const auto with = [&](const char* key, const auto& value) {
    return refusal(Pieces().made().value(key, value));
  };
  EXPECT_THAT(refusal(MadeGguf()), HasSubstr("tokenizer.ggml.model is missing"));
  EXPECT_THAT(refusal(MadeGguf().value("tokenizer.ggml.model", "t5")),
              HasSubstr("tokenizer.ggml.model 't5' is not supported"));
  EXPECT_THAT(with("tokenizer.ggml.remove_extra_whitespaces", true), HasSubstr("not supported"));
  MadeGguf made;
  made.value("tokenizer.ggml.model", "gpt2");
  made.list("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  EXPECT_THAT(refusal(made), HasSubstr("tokenizer.ggml.pre is missing"));
  EXPECT_THAT(refusal(made.value("tokenizer.ggml.pre", "default")),
              AllOf(HasSubstr("'default' is not supported"), HasSubstr("qwen2")));
  MadeGguf unmerged;
  unmerged.value("tokenizer.ggml.model", "gpt2").value("tokenizer.ggml.pre", "gpt-2");
  unmerged.list("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  EXPECT_THAT(refusal(unmerged), HasSubstr("tokenizer.ggml.merges is missing or empty"));
  Pieces twice;
  twice.add("the", 0, 1);
  EXPECT_THAT(refusal(twice.made()), HasSubstr("token 'the' is there twice"));
  Pieces wild;
  wild.add("\xff", 0, 1);
  EXPECT_THAT(refusal(wild.made()), HasSubstr("is not UTF-8"));
  Pieces uneven;
  uneven.scores.pop_back();
  EXPECT_THAT(refusal(uneven.made()), HasSubstr("tokenizer.ggml.scores has"));
  EXPECT_THAT(with("tokenizer.ggml.eot_token_id", std::uint32_t{1'000'000}), HasSubstr("(none)"));
  MadeGguf far = Pieces().made();
  EXPECT_THAT(refusal(far.value("tokenizer.ggml.padding_token_id", std::uint32_t{1'000'000})),
              HasSubstr("padding_token_id is 1000000"));
}

}  // namespace
}  // namespace ebb::files
