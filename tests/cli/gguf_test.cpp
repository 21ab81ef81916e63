// GGUF files as people bring them: generate, inspect, plan, train, and what is saved.
#include "cli/small_commands.h"
#include "engine/made_gguf_models.h"
#include "paths.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Gguf : public SmallCommands {
 protected:
  void SetUp() override {
    const std::filesystem::path golden = source_folder() / "tests/golden";
    ebb::Json config = parse_json(read_file(golden / "training/qwen2/config.json"), "");
    config["vocab_size"] = 1040;
    config["max_position_embeddings"] = 512;
    const model::Config parsed = model::parse_config(config, "config.json");
    const engine::Weights weights = engine::random_weights(parsed);
    const std::string tokenizer = read_file(golden / "tokenizers/qwen2.json");
    engine::write_sharded(folder_model, weights, {files::StoredType::f32}, 1);
    write_file(folder_model + "/config.json", config.dump());
    write_file(folder_model + "/tokenizer.json", tokenizer);
    write_file(folder_model + "/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
    files::MadeGguf made = engine::gguf_keys(parsed);
    engine::add_byte_level(made, parse_json(tokenizer, ""), "qwen2");
    made.value("tokenizer.ggml.eos_token_id", std::uint32_t{1000});
    made.value("tokenizer.chat_template", "{{ messages[0]['content'] }}");
    engine::add_weights(made, parsed, weights);
    write_file(gguf, made.bytes());
  }

  Json generated(const std::string& model, const Arguments& more = {}) const {
    const Finished end = run_ebb(Arguments{"generate", "--model", model, "--max-tokens", "8",
                                           "--prompt", "Hello there", "--json"} +
                                 more);
    EXPECT_EQ(end.code, 0) << end.err;
    return end.code == 0 ? Json::parse(end.out) : Json();
  }

  std::string folder_model = at("model");
  std::string gguf = at("model.gguf");
};

TEST_F(Gguf, GeneratesWhatTheFolderDoes) {
  for (const char* dtype : {"fp32", "bf16"}) {
    const Json found = generated(gguf, {"--dtype", dtype});
    const Json expected = generated(folder_model, {"--dtype", dtype});
    EXPECT_EQ(found["prompt_ids"], expected["prompt_ids"]) << dtype;
    EXPECT_EQ(found["ids"], expected["ids"]) << dtype;
    EXPECT_EQ(found["text"], expected["text"]) << dtype;
    EXPECT_EQ(found["random_weights"], false);
  }
}

TEST_F(Gguf, InspectAndPlan) {
  const Finished shown = run_ebb({"inspect", gguf});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, AllOf(HasSubstr("qwen2 family"), HasSubstr("GGUF version 3"),
                               HasSubstr("Ebb can train it and generate with it"),
                               HasSubstr("token_embd.weight"), HasSubstr("chat template: yes")));
  const Finished planned = run_ebb(Arguments{"plan", "--model", gguf} + batch(2));
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("tokenizer"));
}

TEST_F(Gguf, WhatIsTrainedIsAFolder) {
  const Finished end =
      run_ebb(Arguments{"train", "--model", gguf, "--data", data, "--out", at("run")} + batch(2));
  EXPECT_EQ(end.code, 0) << end.err;
  const Finished shown = run_ebb({"inspect", at("run")});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("qwen2 family"), HasSubstr("chat template: yes"),
                               HasSubstr("Ebb can train it and generate with it")));
  const Json found = generated(at("run"));
  EXPECT_EQ(found["prompt_ids"], generated(gguf)["prompt_ids"]);
  const Finished again =
      run_ebb(Arguments{"train", "--model", gguf, "--data", data, "--out", at("run"), "--resume"} +
              batch(2));
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(Gguf, CutOffIsToldByName) {
  std::filesystem::resize_file(gguf, std::filesystem::file_size(gguf) - 100);
  const Finished end = run_ebb({"generate", "--model", gguf, "--prompt", "x"});
  EXPECT_NE(end.code, 0);
  EXPECT_THAT(end.err, AllOf(HasSubstr("model.gguf"), HasSubstr("cut off")));
}

}  // namespace
}  // namespace ebb::cli
