// ebb evaluate: the loss of a model on files, as a user asks for it.
#include <cmath>

#include "cli/small_commands.h"
#include "engine/made_gguf_models.h"
#include "paths.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Evaluate : public SmallCommands {
 protected:
  Arguments command(const std::string& model, const Arguments& more = {}) const {
    return Arguments{"evaluate", "--model",       model, "--data",   data, "--sequence",
                     "32",       "--micro-batch", "2",   "--device", "cpu"} +
           more;
  }
  Json evaluated(const std::string& model, const Arguments& more = {}) const {
    const Finished end = run_ebb(command(model, more) + Arguments{"--json"});
    EXPECT_EQ(end.code, 0) << end.err;
    return end.code == 0 ? Json::parse(end.out) : Json();
  }
};

TEST_F(Evaluate, SaysWhatTrainingWouldSay) {
  const std::string run = trained("run", 4,
                                  {"--eval-data", data, "--eval-batches", "1000000", "--summary",
                                   at("summary.json"), "--device", "cpu"});
  const Json summary = Json::parse(read_file(at("summary.json")));
  const Json found = evaluated(run);
  // To the last bit.
  EXPECT_EQ(found["loss"], summary["validation_losses"].back());
  EXPECT_EQ(found["perplexity"], std::exp(found["loss"].get<double>()));
  EXPECT_EQ(found["whole"], true);
  EXPECT_EQ(found["random_weights"], false);
  EXPECT_EQ(found["tokens"], found["batches"].get<int>() * 64);
  EXPECT_GT(found["loss_tokens"], found["tokens"].get<int>() - 64 - 200);
  // A byte is a token here, and the end of the text has none.
  EXPECT_NEAR(found["bits_per_byte"].get<double>(), found["loss"].get<double>() / std::log(2.0),
              0.01);
  for (const char* tier : {"device", "host"}) {
    EXPECT_EQ(found["tiers"][tier]["peak"], found["tiers"][tier]["predicted_peak"]) << tier;
  }

  // Wherever its weights live, and with the flags that a plan prints.
  const Json disk = evaluated(run, {"--weights", "stream", "--disk", at("") + ":64MiB",
                                    "--disk-weights", "3", "--threads", "1"});
  EXPECT_EQ(disk["loss"], found["loss"]);
  EXPECT_THAT(disk["flags"].get<std::string>(), HasSubstr("--disk-weights 3"));
  EXPECT_GT(disk["tiers"]["disk"]["peak"], 0);
  EXPECT_LT(disk["tiers"]["device"]["peak"], found["tiers"]["device"]["peak"]);

  // Another shape of batches is another sum; and there may be less of it.
  const Json first = evaluated(run, {"--batches", "3"});
  EXPECT_EQ(first["batches"], 3);
  EXPECT_EQ(first["whole"], false);
  EXPECT_EQ(evaluated(run, {"--max-tokens", "129"})["loss"], first["loss"]);
  EXPECT_EQ(evaluated(run, {"--max-tokens", "128"})["batches"], 2);
}

TEST_F(Evaluate, TellsPeopleWhatItFound) {
  const Finished end = run_ebb(command("preset:tiny", {"--batches", "2"}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("loss "), HasSubstr("perplexity "),
                             HasSubstr("bits per byte"), HasSubstr("the beginning of the data"),
                             HasSubstr("2 batches"), HasSubstr("tokens/s")));
  EXPECT_THAT(end.err, AllOf(HasSubstr("Plan: --weights resident"), HasSubstr("needed"),
                             HasSubstr("are random"), Not(HasSubstr("gradients"))));
}

TEST_F(Evaluate, WhatDoesNotFitIsRefused) {
  const Finished end = run_ebb(command("preset:tiny", {"--device-memory", "200KiB"}));
  EXPECT_EQ(end.code, 2);
  EXPECT_EQ(end.out, "");
  EXPECT_THAT(end.err, AllOf(HasSubstr("Missing on the device"), HasSubstr("Closest plan:"),
                             HasSubstr("What would help"), HasSubstr("a higher limit")));
  const Finished planned = run_ebb({"plan", "evaluate", "--model", "preset:tiny", "--device", "cpu",
                                    "--device-memory", "200KiB"});
  EXPECT_EQ(planned.code, 2);
  EXPECT_THAT(planned.err, HasSubstr("Missing on the device"));
}

TEST_F(Evaluate, PlansForOtherMachines) {
  const Finished end =
      run_ebb({"plan", "evaluate", "--model", "preset:llama-3.1-8b", "--machine", "rtx-4090",
               "--sequence", "2048", "--device-memory", "8GiB", "--trace", at("trace.json")});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("8.03 B parameters"), HasSubstr("on the host"),
                             HasSubstr("tokens/s) on rtx-4090"), HasSubstr("bound by"),
                             HasSubstr("Workspaces are estimates")));
  EXPECT_THAT(read_file(at("trace.json")), HasSubstr("note loss"));
}

TEST_F(Evaluate, ATraceShowsTheLastBatches) {
  const Finished end =
      run_ebb(command("preset:tiny", {"--batches", "3", "--trace", at("trace.json")}));
  ASSERT_EQ(end.code, 0) << end.err;
  const std::string trace = read_file(at("trace.json"));
  EXPECT_THAT(trace, AllOf(HasSubstr("ebb evaluate, batch, measured"), HasSubstr("batch 3"),
                           HasSubstr("note loss")));
  EXPECT_NO_THROW(Json::parse(trace).at("traceEvents"));
}

TEST_F(Evaluate, BadInputIsToldByName) {
  const auto refused = [&](const Arguments& more, const std::string& words) {
    const Finished end = run_ebb(
        Arguments{"evaluate", "--model", "preset:tiny", "--data", data, "--device", "cpu"} + more);
    EXPECT_EQ(end.code, 1) << end.out;
    EXPECT_EQ(end.out, "");
    EXPECT_THAT(end.err, HasSubstr(words));
  };
  refused({"--batches", "0"}, "--batches 0: expected 1 or more");
  refused({"--max-tokens", "-4"}, "--max-tokens -4: expected 1 or more");
  refused({"--sequence", "0"}, "--sequence 0");
  refused({"--micro-batch", "0"}, "--micro-batch 0");
  refused({"--weights", "some"}, "--weights 'some'");
  refused({"--disk-weights", "1"}, "--disk");
  refused({"--data", at("none.txt")}, "none.txt");
  write_file(at("prompts.jsonl"),
             R"({"prompt": "a long prompt that fills it", "completion": "x"})");
  const Finished end = run_ebb({"evaluate", "--model", "preset:tiny", "--device", "cpu", "--data",
                                at("prompts.jsonl"), "--sequence", "8"});
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.err, AllOf(HasSubstr("counts for the loss"), HasSubstr("--sequence 8")));
  EXPECT_THAT(run_ebb({"evaluate", "--data", data}).err, HasSubstr("--model"));
  EXPECT_THAT(run_ebb({"evaluate", "--model", "preset:tiny"}).err, HasSubstr("--data"));
}

TEST_F(Evaluate, AGgufFileIsTheModelOfItsFolder) {
  const std::filesystem::path golden = source_folder() / "tests/golden";
  ebb::Json config = parse_json(read_file(golden / "training/qwen2/config.json"), "");
  config["vocab_size"] = 1040;
  config["max_position_embeddings"] = 512;
  const model::Config parsed = model::parse_config(config, "config.json");
  const engine::Weights weights = engine::random_weights(parsed);
  const std::string tokenizer = read_file(golden / "tokenizers/qwen2.json");
  engine::write_sharded(at("model"), weights, {files::StoredType::f32}, 1);
  write_file(at("model/config.json"), config.dump());
  write_file(at("model/tokenizer.json"), tokenizer);
  write_file(at("model/tokenizer_config.json"), R"({"eos_token": "<|endoftext|>"})");
  files::MadeGguf made = engine::gguf_keys(parsed);
  engine::add_byte_level(made, parse_json(tokenizer, ""), "qwen2");
  made.value("tokenizer.ggml.eos_token_id", std::uint32_t{1000});
  engine::add_weights(made, parsed, weights);
  write_file(at("model.gguf"), made.bytes());
  const Json expected = evaluated(at("model"), {"--batches", "4"});
  const Json found = evaluated(at("model.gguf"), {"--batches", "4", "--weights", "stream"});
  EXPECT_EQ(expected["dtype"], "fp32");
  EXPECT_EQ(found["dtype"], "fp32");
  EXPECT_EQ(found["loss"], expected["loss"]);
  EXPECT_EQ(found["bits_per_byte"], expected["bits_per_byte"]);
  EXPECT_GT(found["bits_per_byte"], 0);
}

}  // namespace
}  // namespace ebb::cli
