// Folders as people bring them: several files in half precision, a tokenizer, a chat template.
#include <map>

#include "cli/small_commands.h"
#include "engine/made_folders.h"
#include "model/parameters.h"
#include "paths.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

class ModelFolder : public SmallCommands {
 protected:
  void SetUp() override {
    const std::filesystem::path golden = source_folder() / "tests/golden";
    ebb::Json config = parse_json(read_file(golden / "training/qwen2/config.json"), "");
    config["vocab_size"] = 1040;
    config["max_position_embeddings"] = 512;
    config["eos_token_id"] = 1039;
    config["of_others"] = "kept";
    const model::Config parsed = model::parse_config(config, "config.json");
    const model::Initializer initializer(parsed, 5);
    engine::Weights weights;
    for (const model::Parameter& parameter : model::parameters_of(parsed).all) {
      engine::NamedValues& values = weights[parameter.name];
      values.shape = parameter.matrix ? std::vector{parameter.rows, parameter.cols}
                                      : std::vector{parameter.rows};
      values.values.resize(static_cast<std::size_t>(parameter.count()));
      initializer.fill(parameter, 0, parameter.count(), values.values.data());
    }
    engine::write_sharded(model, weights, {files::StoredType::f16}, 2);
    write_file(model + "/config.json", config.dump());
    std::filesystem::copy(golden / "tokenizers/qwen2.json", model + "/tokenizer.json");
    write_file(model + "/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  }

  Finished generate(const Arguments& more) const {
    return run_ebb(Arguments{"generate", "--model", model, "--dtype", "fp32", "--max-tokens", "8"} +
                   more);
  }
  Json generated(const Arguments& more) const {
    const Finished end = generate(more + Arguments{"--json"});
    EXPECT_EQ(end.code, 0) << end.err;
    return end.code == 0 ? Json::parse(end.out) : Json();
  }

  std::string model = at("model");
};

TEST_F(ModelFolder, GenerateUsesItsTokenizerAndItsSettings) {
  Json json = generated({"--prompt", "Hello there"});
  EXPECT_LT(json["prompt_ids"].size(), std::string("Hello there").size()) << "not bytes";
  EXPECT_EQ(json["temperature"], 0.8);
  EXPECT_EQ(json["stop_ids"], Json({1039})) << "of config.json";
  write_file(model + "/generation_config.json", R"({"do_sample": false})");
  json = generated({"--prompt", "Hello there"});
  EXPECT_EQ(json["temperature"], 0);
  EXPECT_EQ(json["ended_by"], "length");
  // What was the third token now ends the text.
  const int third = json["ids"][2];
  write_file(model + "/generation_config.json", Json{{"eos_token_id", {third, 1039}}}.dump());
  const Json stopped = generated({"--prompt", "Hello there"});
  EXPECT_EQ(stopped["ended_by"], "stop");
  EXPECT_LE(stopped["ids"].size(), 2u);
}

TEST_F(ModelFolder, ChatGoesThroughTheTemplate) {
  EXPECT_THAT(generate({"--chat", "--prompt", "hi"}).err, HasSubstr("no chat template"));
  write_file(model + "/chat_template.jinja", kTemplate);
  const Json plain = generated({"--prompt",
                                "<|im_start|>system\nBe kind.<|im_end|>\n"
                                "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"});
  const Json chat = generated({"--chat", "--system", "Be kind.", "--prompt", "hi"});
  EXPECT_EQ(chat["prompt_ids"], plain["prompt_ids"]);
  EXPECT_NE(chat["prompt_ids"], generated({"--chat", "--prompt", "hi"})["prompt_ids"]);
  const Finished answer = generate({"--chat", "--prompt", "a question of mine"});
  EXPECT_THAT(answer.out, Not(HasSubstr("a question of mine"))) << "the answer stands alone";
}

TEST_F(ModelFolder, ABeginningIsNeverDoubled) {
  std::filesystem::copy(golden_folder("tokenizers") / "llama3.json", model + "/tokenizer.json",
                        std::filesystem::copy_options::overwrite_existing);
  write_file(model + "/tokenizer_config.json",
             R"({"bos_token": "<|begin_of_text|>", "eos_token": "<|end_of_text|>"})");
  write_file(model + "/chat_template.jinja", "{{ bos_token }}{{ messages[0]['content'] }}");
  const Json plain = generated({"--prompt", "hi"});
  const Json chat = generated({"--chat", "--prompt", "hi"});
  EXPECT_EQ(plain["prompt_ids"][0], 1003);
  EXPECT_NE(plain["prompt_ids"][1], 1003);
  EXPECT_EQ(chat["prompt_ids"], plain["prompt_ids"]);
}

TEST_F(ModelFolder, ATokenizerThatDoesNotBelongToTheModel) {
  Json config = Json::parse(read_file(model + "/config.json"));
  config["vocab_size"] = 1001;
  write_file(model + "/config.json", config.dump());
  const Finished end = generate({"--prompt", "a"});
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.err, AllOf(HasSubstr(model + "/config.json"), HasSubstr("vocabulary of 1001"),
                             HasSubstr(model + "/tokenizer.json"), HasSubstr("vocab_size"),
                             HasSubstr("--tokenizer FOLDER")));
  EXPECT_THAT(run_ebb({"inspect", model}).out,
              AllOf(HasSubstr("Ebb cannot train this: "), HasSubstr("vocabulary of 1001")));
}

TEST_F(ModelFolder, ATokenizerFromElsewhere) {
  std::filesystem::create_directory(at("elsewhere"));
  std::filesystem::rename(model + "/tokenizer.json", at("elsewhere/tokenizer.json"));
  const Json bytes = generated({"--prompt", "Hello there", "--tokenizer", "bytes"});
  EXPECT_EQ(bytes["prompt_ids"].size(), 11u);
  EXPECT_EQ(bytes["stop_ids"], Json({256})) << "the model's eos is no byte";
  const Json given = generated({"--prompt", "Hello there", "--tokenizer", at("elsewhere")});
  EXPECT_LT(given["prompt_ids"].size(), 11u);
}

TEST_F(ModelFolder, TrainingCarriesItAlongAndResumesFromTheCheckpointAlone) {
  write_file(model + "/generation_config.json", R"({"eos_token_id": 1000})");
  write_file(model + "/chat_template.jinja", kTemplate);
  const std::vector<std::string> files = {"tokenizer.json", "tokenizer_config.json",
                                          "chat_template.jinja", "generation_config.json"};
  std::map<std::string, std::string> contents;
  for (const std::string& name : files) contents[name] = read_file(model + "/" + name);
  const std::string run = at("run");
  const auto train_to = [&](const std::string& from, int steps) {
    return run_ebb(Arguments{"train", "--model", from, "--data", data, "--out", run, "--schedule",
                             "constant", "--resume", "--save-every", "1", "--keep", "1"} +
                   batch(steps));
  };
  const auto check = [&](int step) {
    const std::string folder = step_folder(run, step);
    const std::string manifest = read_file(folder + "/manifest.json");
    for (const std::string& name : files) {
      EXPECT_EQ(read_file(folder + "/" + name), contents[name]) << name;
      EXPECT_THAT(manifest, HasSubstr("\"" + name + "\""));
    }
    const Json config = Json::parse(read_file(folder + "/config.json"));
    EXPECT_EQ(config["of_others"], "kept");
    EXPECT_EQ(config["dtype"], "bfloat16");
  };
  const Finished first = train_to(model, 2);
  ASSERT_EQ(first.code, 0) << first.err;
  check(2);
  // Nothing of the original is left, and each save removes the checkpoint before it.
  std::filesystem::remove_all(model);
  const Finished second = train_to(run, 4);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("Going on from step 2"));
  EXPECT_FALSE(std::filesystem::exists(step_folder(run, 2)));
  check(4);
  model = run;
  const Json json = generated({"--chat", "--prompt", "hi"});
  EXPECT_EQ(json["stop_ids"], Json({1000}));
  EXPECT_EQ(json["temperature"], 0);
}

TEST_F(ModelFolder, Inspect) {
  write_file(model + "/chat_template.jinja", kTemplate);
  const Finished end = run_ebb({"inspect", model});
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("Weights in 2 files"), HasSubstr("13 tensors (13 F16)"),
                             HasSubstr("Tokenizer: BPE, 1000 entries in the vocabulary"),
                             HasSubstr("<|im_start|>"), HasSubstr("'Hello, world! 1234' is ["),
                             HasSubstr("chat template: yes"),
                             HasSubstr("Ebb can train it and generate with it")));
  const Finished tokenizer = run_ebb({"inspect", model + "/tokenizer.json", "--json"});
  EXPECT_EQ(tokenizer.code, 0) << tokenizer.err;
  const Json json = Json::parse(tokenizer.out);
  EXPECT_EQ(json["kind"], "tokenizer");
  EXPECT_EQ(json["tokenizer"]["type"], "BPE");
  EXPECT_GT(json["tokenizer"]["merges"], 0);
  EXPECT_GT(json["tokenizer"]["sample"]["ids"].size(), 0u);
  write_file(model + "/tokenizer.json", R"({"model": {"type": "Unigram", "vocab": []},
                                            "added_tokens": []})");
  EXPECT_THAT(run_ebb({"inspect", model}).out,
              AllOf(HasSubstr("Tokenizer: Unigram"), HasSubstr("Ebb cannot use this tokenizer: ")));
}

}  // namespace
}  // namespace ebb::cli
