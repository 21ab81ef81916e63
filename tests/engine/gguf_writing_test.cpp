// A model that is written as GGUF is read back as the same model.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "engine/made_gguf_models.h"
#include "files/gguf/gguf_files.h"
#include "files/model/gguf_model_writer.h"
#include "files/model/gguf_tokenizer.h"
#include "io/fault_file_system.h"
#include "io/temp_folder.h"
#include "io/text_file.h"
#include "kernels/reference/weight_blocks.h"
#include "text/hard_strings.h"

namespace ebb::engine {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GgufWriting : public testing::Test {
 protected:
  // A folder with random weights of this configuration.
  void make(const Json& more) {
    json_ = Json{{"model_type", "llama"},        {"hidden_size", 256},
                 {"num_hidden_layers", 2},       {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},     {"head_dim", 64},
                 {"intermediate_size", 288},     {"vocab_size", 70},
                 {"rms_norm_eps", 1e-5},         {"rope_theta", 10000.0},
                 {"tie_word_embeddings", false}, {"max_position_embeddings", 64}};
    json_.update(more);
    config_ = model::parse_config(json_, "config.json");
    weights_ = random_weights(config_);
    store();
  }
  void store() {
    std::filesystem::remove_all(folder());
    write_sharded(folder(), weights_, {files::StoredType::f32}, 1);
    files::write_text(files_, folder() / "config.json", json_.dump());
  }

  files::WrittenGguf write(const char* type, const std::filesystem::path& model, int threads = 2) {
    return write(files_, type, model, threads);
  }
  files::WrittenGguf write(io::FileSystem& files, const char* type,
                           const std::filesystem::path& model, int threads = 2) {
    ThreadPool pool(threads);
    return files::write_gguf_model(files, pool, files::find_model(files, model.string()),
                                   {.type = &files::gguf_file_type(type, "--type")}, out(), {});
  }

  std::vector<std::vector<float>> load(const std::filesystem::path& model) {
    const model::Parameters parameters = model::parameters_of(config_);
    std::vector<std::vector<float>> all(parameters.all.size());
    files::load_weights(files_, files::find_model(files_, model.string()), parameters,
                        [&](int p, std::int64_t, std::span<const float> values) {
                          auto& to = all[static_cast<std::size_t>(p)];
                          to.insert(to.end(), values.begin(), values.end());
                        });
    return all;
  }
  std::string bytes() { return io::read_text(files_, out(), kGiB); }
  std::string refusal(const char* type = "q8_0") {
    try {
      write(type, folder());
    } catch (const Error& error) {
      return error.what();
    }
    return "(none)";
  }
  std::filesystem::path folder() const { return at_.path() / "folder"; }
  std::filesystem::path out() const { return at_.path() / "model.gguf"; }

  io::PosixFileSystem files_;
  io::TempFolder at_;
  Json json_;
  model::Config config_;
  Weights weights_;
};

struct Case {
  const char* name;
  const char* more;
  friend void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }
};
class GgufFamilies : public GgufWriting, public testing::WithParamInterface<Case> {};

TEST_P(GgufFamilies, ComeBackAsTheyWere) {
  make(Json::parse(GetParam().more));
  write("f32", folder());
  const files::ModelSource source = files::find_model(files_, out().string());
  model::Config found = source.config;
  if (config_.windows.empty()) found.family = config_.family;  // of mistral, which is llama's here
  EXPECT_EQ(model::to_json(found, "fp32").dump(1), model::to_json(config_, "fp32").dump(1));
  EXPECT_EQ(load(out()), load(folder()));
}

INSTANTIATE_TEST_SUITE_P(
    Families, GgufFamilies,
    testing::Values(
        Case{"llama", "{}"},
        Case{"llama_tied_biased",
             R"({"tie_word_embeddings": true, "attention_bias": true, "mlp_bias": true})"},
        Case{"llama3", R"({"rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3",
                           "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_max_position_embeddings": 8192}})"},
        Case{"linear", R"({"rope_scaling": {"rope_type": "linear", "factor": 2.5}})"},
        Case{"mistral", R"({"model_type": "mistral", "sliding_window": null})"},
        Case{"mistral_window", R"({"model_type": "mistral", "sliding_window": 5})"},
        Case{"qwen2", R"({"model_type": "qwen2", "tie_word_embeddings": true})"},
        Case{"qwen3", R"({"model_type": "qwen3"})"},
        Case{"gemma", R"({"model_type": "gemma", "tie_word_embeddings": true})"}),
    [](const auto& info) { return std::string(info.param.name); });

// Rows of 256 and of 288 numbers, so that every mix meets its fallbacks. What is read back is what
// the quantiser makes of each parameter: rows in another order are other rows.
TEST_F(GgufWriting, EveryTypeHoldsWhatItsQuantiserMakes) {
  make(Json::object());
  const auto given = load(folder());
  const model::Parameters parameters = model::parameters_of(config_);
  for (const files::GgufFileType& type : files::gguf_file_types()) {
    write(type.name.data(), folder());
    const files::GgufFiles gguf(files_, out());
    EXPECT_EQ(gguf.try_integer("general.file_type"), type.number);
    const auto found = load(out());
    for (std::size_t p = 0; p < given.size(); ++p) {
      const std::string name = name_in_gguf(parameters.all[p].name);
      const files::GgufType stored = gguf.find(name).tensor->type;
      std::vector<std::byte> narrow(static_cast<std::size_t>(
          grain_of(stored).size_of(static_cast<std::int64_t>(given[p].size()))));
      std::vector<float> expected(given[p].size());
      files::narrow(stored, given[p], narrow);
      kernels::widen_blocks(stored, narrow, expected);
      EXPECT_EQ(found[p], expected) << type.name << " " << name;
    }
  }
}

TEST_F(GgufWriting, BytesDoNotDependOnThreads) {
  make(Json::object());
  write("q4_k_m", folder(), 1);
  const std::string one = bytes();
  write("q4_k_m", folder(), 3);
  EXPECT_EQ(bytes(), one);
}

TEST_F(GgufWriting, OfAGgufFile) {
  make(Json::object());
  files::MadeGguf made = gguf_keys(config_);
  made.value("general.author", "somebody").value("general.file_type", std::uint32_t{0});
  made.list("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  add_weights(made, config_, weights_);
  const std::filesystem::path from = at_.path() / "from.gguf";
  files::write_text(files_, from, made.bytes());
  EXPECT_FALSE(write("q8_0", from).requantized);
  const std::string straight = bytes();
  const files::GgufFiles gguf(files_, out());
  EXPECT_EQ(gguf.try_text("general.author"), "somebody");
  EXPECT_EQ(gguf.try_integer("general.file_type"), 7);
  EXPECT_EQ(gguf.texts("tokenizer.ggml.tokens"), (std::vector<std::string>{"a", "b"}));
  const auto once = load(out());
  std::filesystem::rename(out(), from);
  // Blocks of the same type are copied; of another they are made again, which is told.
  EXPECT_FALSE(write("q8_0", from).requantized);
  EXPECT_EQ(bytes(), straight);
  EXPECT_EQ(load(out()), once);
  EXPECT_TRUE(write("q4_0", from).requantized);
}

TEST_F(GgufWriting, PresetsAreTheirRandomWeights) {
  ThreadPool pool(2);
  const files::ModelSource source = files::find_model(files_, "preset:tiny");
  files::write_gguf_model(files_, pool, source,
                          {.type = &files::gguf_file_type("f32", ""), .seed = 5}, out(), {});
  config_ = source.config;
  weights_ = random_weights(config_);
  const model::Parameters parameters = model::parameters_of(config_);
  const auto found = load(out());
  for (std::size_t p = 0; p < found.size(); ++p) {
    if (!parameters.all[p].matrix) continue;  // random_weights changes vectors
    EXPECT_EQ(found[p], weights_[parameters.all[p].name].values) << parameters.all[p].name;
  }
}

TEST_F(GgufWriting, WhatGgufCannotSayIsRefused) {
  const auto with = [&](const char* more) {
    make(Json::parse(more));
    return refusal();
  };
  EXPECT_THAT(with(R"({"hidden_act": "gelu"})"), HasSubstr("hidden_act \"gelu\""));
  EXPECT_THAT(with(R"({"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 8,
                       "max_window_layers": 1})"),
              HasSubstr("use_sliding_window true"));
  EXPECT_THAT(with(R"({"rope_scaling": {"rope_type": "llama3", "factor": 8.0,
                       "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                       "original_max_position_embeddings": 64}})"),
              HasSubstr("with other constants"));
  EXPECT_THAT(with(R"({"model_type": "gemma", "tie_word_embeddings": false})"),
              HasSubstr("head of its own"));
  try {
    write("q8_0", golden_folder("families/gpt2"));
    FAIL() << "accepted gpt2";
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("gpt2 family are not written as GGUF"));
  }
  EXPECT_FALSE(files_.exists(out()));
}

TEST_F(GgufWriting, ValuesThatATypeCannotHold) {
  make(Json::object());
  weights_["model.layers.1.mlp.up_proj.weight"].values[300] = 1e6f;
  store();
  EXPECT_THAT(refusal("q4_0"),
              AllOf(HasSubstr("--type q4_0"), HasSubstr("up_proj"), HasSubstr("1000000"),
                    HasSubstr("at element 300"), HasSubstr("Q4_0 holds at most 65504")));
  EXPECT_THAT(refusal("f16"), HasSubstr("F16 holds at most 65504"));
  EXPECT_EQ(refusal("bf16"), "(none)");
  std::filesystem::remove(out());
  weights_["model.norm.weight"].values[3] = std::numeric_limits<float>::quiet_NaN();
  store();
  EXPECT_THAT(refusal("f32"), AllOf(HasSubstr("the value nan at element 3"), HasSubstr("finite")));
  EXPECT_TRUE(files_.list(at_.path()).size() == 1) << "something was left beside the folder";
}

// At every place where writing can fail, and where the machine can stop, the file is the old one or
// the whole new one; a failure leaves nothing else.
TEST_F(GgufWriting, FaultsLeaveTheOldFileOrTheNewOne) {
  make(
      R"({"hidden_size": 32, "head_dim": 8, "intermediate_size": 32, "num_hidden_layers": 1})"_json);
  write("q8_0", folder());
  const std::string whole = bytes();
  const auto begin = [&] { files::write_text(files_, out(), "GGUF, the old one"); };
  std::int64_t operations = 0;
  {
    begin();
    io::FaultFileSystem counting(files_);
    write(counting, "q8_0", folder(), 1);
    operations = counting.counts().operations;
    ASSERT_GT(counting.counts().writes, 10);
  }
  for (std::int64_t nth = 1; nth <= operations; ++nth) {
    begin();
    io::FaultFileSystem faulty(files_);
    faulty.crash_at(nth);
    EXPECT_THROW(write(faulty, "q8_0", folder(), 1), IoError) << nth;
    EXPECT_THAT(bytes(), testing::AnyOf("GGUF, the old one", whole)) << nth;
    begin();
    io::FaultFileSystem full(files_);
    full.cut_write(nth);
    try {
      write(full, "q8_0", folder(), 1);
      EXPECT_EQ(bytes(), whole) << nth;
    } catch (const IoError& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("model.gguf.partial"), HasSubstr("No space left"),
                                      HasSubstr("--out")));
      EXPECT_EQ(bytes(), "GGUF, the old one") << nth;
      EXPECT_FALSE(files_.exists(out().string() + ".partial")) << nth;
    }
  }
}

class GgufTokenizerWriting : public GgufWriting {
 protected:
  // A folder with this tokenizer as GGUF; then both tokenize alike.
  void compare(const text::TokenizerTexts& texts, const std::string& name) {
    make(R"({"hidden_size": 32, "head_dim": 8, "intermediate_size": 32, "num_hidden_layers": 1,
             "vocab_size": 1200})"_json);
    for (const auto& [file, text] : texts) files::write_text(files_, folder() / file, text);
    const files::ModelSource source = files::find_model(files_, folder().string());
    const files::ModelTokenizer given = files::find_tokenizer(files_, source);
    ThreadPool pool(1);
    files::write_gguf_model(files_, pool, source,
                            {.type = &files::gguf_file_type("f16", ""), .tokenizer = &given}, out(),
                            {});
    const files::ModelSource read = files::find_model(files_, out().string());
    const files::ModelTokenizer found = files::find_tokenizer(files_, read);
    const text::Tokenizer& a = given.tokenizer();
    const text::Tokenizer& b = found.tokenizer();
    EXPECT_EQ(a.prefix(), b.prefix()) << name;
    EXPECT_EQ(a.suffix(), b.suffix()) << name;
    EXPECT_EQ(a.end_of_text(), b.end_of_text()) << name;
    EXPECT_EQ(given.parts.chat.has_value(), found.parts.chat.has_value()) << name;
    const std::vector<std::string> strings =
        text::hard_strings(parse_json(golden("golden.json"), "golden.json"));
    for (std::size_t i = 0; i < strings.size(); i += 5) {
      const std::vector<std::int32_t> ids = a.encode(strings[i]);
      ASSERT_EQ(b.encode(strings[i]), ids) << name << " string " << i;
      ASSERT_EQ(b.decode(ids), a.decode(ids)) << name << " string " << i;
    }
  }
  std::string golden(const std::string& name) {
    return io::read_text(files_, golden_folder("tokenizers") / name, 16 * kMiB);
  }
};

TEST_F(GgufTokenizerWriting, ByteLevelOnes) {
  for (const auto& [name, end] : {std::pair{"gpt2", "<|endoftext|>"},
                                  {"llama3", "<|end_of_text|>"},
                                  {"qwen2", "<|endoftext|>"},
                                  {"tekken", "</s>"}}) {
    compare({{text::kTokenizerFile, golden(std::string(name) + ".json")},
             {text::kTokenizerConfigFile,
              Json{{"eos_token", end}, {"chat_template", "{{ messages[0]['content'] }}"}}.dump()}},
            name);
  }
}

// Merges of a vocabulary of pieces are all ways to make one, as those that come of scores are.
TEST_F(GgufTokenizerWriting, PiecesWithScores) {
  for (const auto& [name, end] : {std::pair{"llama2", "</s>"}, {"gemma", "<eos>"}}) {
    Json json = parse_json(golden(std::string(name) + ".json"), name);
    const Json& vocabulary = json["model"]["vocab"];
    std::vector<std::string> pieces(vocabulary.size() + json["added_tokens"].size());
    for (const auto& [token, id] : vocabulary.items()) {
      if (!token.starts_with("<0x")) pieces[id.get<std::size_t>()] = token;
    }
    std::set<std::string> known(pieces.begin(), pieces.end());
    for (const Json& added : json["added_tokens"]) {
      pieces[added["id"].get<std::size_t>()].clear();
      if (added["special"].get<bool>()) known.erase(added["content"]);
    }
    Json merges = Json::array();
    for (const std::string& piece : pieces) {
      for (std::size_t cut = 1; cut < piece.size(); ++cut) {
        if (!known.contains(piece.substr(0, cut)) || !known.contains(piece.substr(cut))) continue;
        merges.push_back(Json::array({piece.substr(0, cut), piece.substr(cut)}));
      }
    }
    json["model"]["merges"] = merges;
    compare({{text::kTokenizerFile, json.dump()},
             {text::kTokenizerConfigFile, Json{{"eos_token", end}}.dump()}},
            name);
  }
}

TEST_F(GgufTokenizerWriting, OthersAreRefusedByName) {
  const auto said = [&](const std::string& tokenizer) -> std::string {
    try {
      compare({{text::kTokenizerFile, tokenizer}}, "");
    } catch (const FormatError& error) {
      return error.what();
    }
    return "(none)";
  };
  EXPECT_THAT(said(golden("pieces.json")),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("its normalizer is"),
                    HasSubstr("--tokenizer none")));
  EXPECT_THAT(said(golden("llama2.json")), HasSubstr("its merges are not all ways to join"));
  Json other = parse_json(golden("qwen2.json"), "");
  other["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\s+";
  EXPECT_THAT(said(other.dump()), HasSubstr("it splits texts by"));
}

}  // namespace
}  // namespace ebb::engine
