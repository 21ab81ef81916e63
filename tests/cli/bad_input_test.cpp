// The promise: bad input gets a clear error. Every message names the thing and says what to do.
#include <cstring>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr int kFailed = 1;
constexpr int kDoesNotFit = 2;

class BadInput : public SmallCommands {
 protected:
  // Expects that the command is refused with these words in its message.
  static std::string expect_refused(const Arguments& arguments,
                                    const std::vector<std::string>& words, int code = kFailed) {
    std::string line;
    for (const std::string& word : arguments) line += word.substr(0, 100) + " ";
    SCOPED_TRACE(line);
    const Finished run = run_ebb(arguments);
    EXPECT_EQ(run.code, code) << run.err;
    EXPECT_EQ(run.signal, 0);
    EXPECT_TRUE(run.err.starts_with("ebb: ")) << run.err;
    for (const std::string& word : words) EXPECT_THAT(run.err, HasSubstr(word));
    return run.err;
  }

  void expect_flag_refused(const Arguments& flag, const std::vector<std::string>& words,
                           int code = kFailed) const {
    const Arguments start{"train", "--model", "preset:tiny", "--data", data, "--out", at("out")};
    expect_refused(start + flag, words, code);
    EXPECT_FALSE(std::filesystem::exists(at("out"))) << "a refused run left a folder";
  }
};

TEST_F(BadInput, Data) {
  write_file(at("empty.txt"), "");
  write_file(at("short.txt"), "ebb");
  std::filesystem::create_directory(at("nothing"));
  const auto with = [&](const std::string& path) {
    return Arguments{"train", "--model", "preset:tiny", "--out", at("out"), "--data", path};
  };
  expect_refused(with(at("empty.txt")), {"empty.txt", "it is empty", "give a file"});
  expect_refused(with(at("nothing")), {"nothing", "give a file"});
  expect_refused(with(at("nowhere")), {"nowhere", "does not exist", "give the path"});
  expect_refused(with(at("short.txt")), {"4 tokens", "too few", "give more data", "at most 3"});
  expect_refused(with(data) + Arguments{"--sequence", "4000000"}, {"4000000", "give more data"});
  // Learned positions are a table; rotary ones go on (PlanTest).
  const auto gpt2 = (source_folder() / "tests/golden/families/gpt2").string();
  expect_refused({"plan", "--model", gpt2, "--device", "cpu", "--sequence", "25"},
                 {"--sequence 25", "24 positions", "give at most 24"});
}

TEST_F(BadInput, Flags) {
  expect_flag_refused({"--device-memory", "10", "Gigs"},
                      {"--device-memory", "'10 Gigs'", "such as 512MiB"});
  expect_flag_refused({"--device-memory", "-5"}, {"--device-memory", "'-5'", "such as 512MiB"});
  expect_flag_refused({"--host-memory", "much"}, {"--host-memory", "'much'", "such as 512MiB"});
  expect_flag_refused({"--states", "moon"}, {"--states 'moon'", "resident, stream, host or auto"});
  expect_flag_refused({"--offload-fraction", "2"}, {"--offload-fraction 2", "between 0 and 1"});
  expect_flag_refused({"--offload-fraction", "-0.5"},
                      {"--offload-fraction -0.5", "between 0 and 1"});
  expect_flag_refused({"--offload-fraction", "nan"}, {"--offload-fraction nan", "between 0 and 1"});
  expect_flag_refused({"--host-fraction", "7"}, {"--host-fraction 7", "between 0 and 1"});
  expect_flag_refused({"--states", "resident", "--offload-fraction", "0.5"},
                      {"--states resident", "offload fraction", "--states stream, host or auto"});
  expect_flag_refused({"--states", "host", "--host-fraction", "0.5"},
                      {"--states host", "--host-fraction", "--offload-fraction alone"});
  expect_flag_refused({"--recompute", "x"}, {"--recompute 'x'", "none, block, auto or a number"});
  expect_flag_refused({"--vocabulary", "half"}, {"--vocabulary 'half'", "whole, cut or auto"});
  expect_flag_refused({"--recompute", "-1"}, {"--recompute '-1'", "none, block, auto"});
  expect_flag_refused({"--activations", "y"}, {"--activations 'y'", "device, host, disk, auto"});
  expect_flag_refused({"--dtype", "int4"}, {"--dtype 'int4'", "bf16 or fp32"});
  expect_flag_refused({"--gradients", "int4"}, {"--gradients 'int4'", "bf16 or fp32"});
  expect_flag_refused({"--dtype", "fp32", "--gradients", "bf16"}, {"--gradients bf16", "fp32"});
  expect_flag_refused({"--schedule", "nope"}, {"--schedule", "nope", "constant, linear, cosine"});
  expect_flag_refused({"--state-format", "int2"}, {"--state-format 'int2'", "exact, bf16 or int8"});
  expect_flag_refused({"--optimizer", "adamx"}, {"--optimizer 'adamx'", "adamw", "adagrad"});
  expect_flag_refused({"--optimizer", "lion", "--state-format", "int8"},
                      {"--state-format int8", "--optimizer adamw", "lion has exact alone"});
  expect_flag_refused({"--momentum", "0.9"}, {"--momentum", "--optimizer adamw", "leave it out"});
  expect_flag_refused({"--optimizer", "sgd", "--beta2", "0.9"}, {"--beta2", "--optimizer sgd"});
  expect_flag_refused({"--optimizer", "sgd", "--momentum", "1"}, {"--momentum 1", "below 1"});
  expect_flag_refused({"--device", "moon"}, {"--device 'moon'", "cpu"});
}

TEST_F(BadInput, Numbers) {
  for (const char* flag :
       {"--steps", "--sequence", "--micro-batch", "--accumulate", "--chunk-parameters"}) {
    for (const char* value : {"0", "-3"}) {
      expect_flag_refused({flag, value},
                          {fmt::format("{} {}", flag, value), "a whole number from 1 to"});
    }
  }
  for (const char* flag : {"--threads", "--save-every", "--keep", "--clip", "--warmup",
                           "--learning-rate", "--weight-decay", "--beta1", "--final-share"}) {
    expect_flag_refused({flag, "-1"}, {fmt::format("{} -1", flag), "expected"});
  }
  for (const char* value : {"-1", "18446744073709551616", "010", "0x10", "+1", "1.5", "1e3", ""}) {
    expect_flag_refused({"--seed", value}, {fmt::format("--seed: {}: expected", value),
                                            "a whole number from 0 to 18446744073709551615"});
  }
  for (const char* flag : {"--steps", "--micro-batch", "--threads", "--eval-batches", "--warmup"}) {
    for (const char* value : {"99999999999999999999", "-99999999999999999999", "010", "0x10",
                              "1e30", "5x", "nan", "1'000"}) {
      expect_flag_refused({flag, value}, {fmt::format("{}: {}: expected", flag, value),
                                          "a whole number up to 9223372036854775807"});
    }
  }
  expect_flag_refused({"--threads", "5000000000"}, {"--threads", "5000000000"});
  expect_flag_refused({"--learning-rate", "nan"}, {"--learning-rate nan", "a finite number"});
  expect_flag_refused({"--steps", "many"}, {"--steps", "many"});
  expect_flag_refused({"--micro-batch", "1000000000000000"},
                      {"--micro-batch 1000000000000000", "a whole number from 1 to"});
  expect_flag_refused({"--sequence", "999999999"},
                      {"--sequence 999999999", "2147483648 tokens", "knows 4096 positions"});
  expect_flag_refused({"--accumulate", "1000000000000"}, {"--accumulate", "from 1 to 65536"});
  expect_flag_refused({"--threads", "100000"}, {"--threads 100000", "to 4096"});
}

TEST_F(BadInput, UnknownAndMissingFlags) {
  expect_flag_refused({"--nope"}, {"--nope", "'ebb train' has no such flag", "ebb train --help"});
  expect_flag_refused({"--sequnce", "4"}, {"--sequnce: ", "did you mean --sequence?"});
  expect_flag_refused({"--lr", "4"}, {"--lr: ", "did you mean --learning-rate?"});
  expect_flag_refused({"--stpes=4"}, {"--stpes: ", "did you mean --steps?"});
  expect_flag_refused({"--steps", "4", "--steps", "5"}, {"--steps is given 2 times (4, 5)"});
  expect_flag_refused({"--states", "host", "--clip", "1", "--states", "host"},
                      {"--states is given 2 times (host, host)"});
  expect_flag_refused({"--device-memory", "1GiB", "--device-memory", "2GiB"},
                      {"--device-memory is given 2 times (1GiB, 2GiB)", "give it once"});
  // The flag that is missing is the one that was misspelt.
  expect_refused({"train", "--modle", "preset:tiny"}, {"--modle: ", "did you mean --model?"});
  expect_refused({"generate", "--model", "preset:tiny"}, {"--prompt: ", "--prompt-file FILE"});
  expect_refused({"trian"}, {"'trian' is not a verb; did you mean train?"});
  expect_refused({"plan", "genrate"}, {"did you mean generate?", "'ebb plan'"});
  expect_refused({"train", "--model", "preset:tiny", "--data", data}, {"--out", "required"});
  expect_refused({"train", "--model", "preset:tiny", "--out", at("out")}, {"--data", "required"});
  expect_refused({"train", "--data", data, "--out", at("out")}, {"--model", "required"});
  expect_refused({"plan"}, {"--model", "required", "ebb plan --help"});
  expect_refused({"generate"}, {"--model", "required"});
  expect_refused({"inspect"}, {"path", "required"});
  expect_refused({"sail"}, {"'sail' is not a verb",
                            "train, plan, generate, evaluate, chat, inspect, quantize, check, "
                            "tokenize, report, watch, probe and bench"});
  expect_refused({}, {"ebb --help"});
}

TEST_F(BadInput, LimitsThatAreTooSmall) {
  for (const char* limit : {"0", "1MiB"}) {
    expect_flag_refused({"--device-memory", limit},
                        {"does not fit", "weights", "states", "needed", "limit",
                         "Missing on the device", "bytes)", "--device-memory ", "What would help"},
                        kDoesNotFit);
  }
  expect_flag_refused({"--device-memory", "4MiB", "--host-memory", "3MiB"}, {"Missing on the host"},
                      kDoesNotFit);
  expect_refused({"plan", "--model", "preset:tiny", "--device-memory", "1MiB"},
                 {"does not fit", "Missing on the device"}, kDoesNotFit);
  // The advice is right: the states that were told to stay may go.
  const std::string advice =
      expect_refused({"plan", "--model", "preset:tiny", "--states", "resident", "--device-memory",
                      "8MiB", "--sequence", "32", "--micro-batch", "2"},
                     {"--states auto", "fits with"}, kDoesNotFit);
}

TEST_F(BadInput, OutputFolder) {
  std::filesystem::create_directory(at("full"));
  write_file(at("full/letter.txt"), "mine");
  expect_refused(train(at("full"), 2), {"--out", "full", "not empty", "Give another folder"});
  expect_refused(train(data, 2), {"--out", data, "this is a file", "a folder"});
  const std::string run = trained("run", 1);
  expect_refused(train(run, 2), {"--out", "not empty", "Add --resume"});
  const Finished wrong = run_ebb(train(at("out"), 2) + Arguments{"--summary", at("no/s.json")});
  EXPECT_EQ(wrong.code, kFailed);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("--summary"), HasSubstr("a folder that exists")));
  EXPECT_THAT(wrong.out, Not(HasSubstr("step 1"))) << "found out after the training only";
}

TEST_F(BadInput, Models) {
  const auto with = [&](const std::string& model) {
    return Arguments{"train", "--data", data, "--out", at("out"), "--model", model};
  };
  expect_refused(with("preset:huge"), {"preset:huge", "tiny, small, ", "qwen2.5-0.5b"});
  expect_refused(with(at("nowhere")), {"nowhere", "no such folder", "preset:small"});
  std::filesystem::create_directory(at("bare"));
  expect_refused(with(at("bare")), {"bare", "neither a config.json nor a checkpoint", "Give"});
  expect_refused({"generate", "--model", at("bare"), "--prompt", "a"},
                 {"bare", "neither a config.json", "Give"});
  expect_refused({"inspect", at("bare")}, {"bare", "neither a model (config.json) nor"});
  expect_refused({"inspect", at("nowhere")}, {"nowhere", "no such file or folder"});
}

// A tiny model's folder, to be damaged.
class BadModel : public BadInput {
 protected:
  void SetUp() override {
    model = at("model");
    std::filesystem::copy(step_folder(trained("made", 1), 1), model);
    // As a folder from elsewhere: what is changed here is no damage.
    std::filesystem::remove(model + "/manifest.json");
    config = Json::parse(read_file(model + "/config.json"));
    const std::string whole = read_file(model + "/model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, whole.data(), sizeof length);
    header = Json::parse(whole.substr(8, length));
    tensors = whole.substr(8 + length);
  }

  void write_config(const Json& json) const { write_file(model + "/config.json", json.dump()); }

  void write_weights(const Json& with, const std::string& bytes) const {
    const std::string text = with.dump();
    const std::uint64_t length = text.size();
    write_file(model + "/model.safetensors",
               std::string(reinterpret_cast<const char*>(&length), 8) + text + bytes);
  }

  // The folder has no tokenizer, which is not what these tests are about.
  static std::string expect_refused(const Arguments& arguments,
                                    const std::vector<std::string>& words, int code = kFailed) {
    const bool reads_text = arguments[0] == "train" || arguments[0] == "generate";
    const Arguments bytes = {"--tokenizer", "bytes"};
    return BadInput::expect_refused(reads_text ? arguments + bytes : arguments, words, code);
  }

  // Training and generation read the same folder and must say the same.
  void expect_model_refused(const std::vector<std::string>& words) const {
    expect_refused(
        Arguments{"train", "--data", data, "--out", at("out"), "--model", model} + batch(1), words);
    std::filesystem::remove_all(at("out"));
    expect_refused({"generate", "--model", model, "--prompt", "a", "--max-tokens", "2"}, words);
  }

  std::string model;
  Json config;
  Json header;
  std::string tensors;
};

TEST_F(BadModel, Configuration) {
  const auto change = [&](const char* field, const Json& value,
                          const std::vector<std::string>& words) {
    Json changed = config;
    changed[field] = value;
    write_config(changed);
    std::vector<std::string> all = words;
    all.push_back(model + "/config.json");
    expect_model_refused(all);
  };
  change("model_type", "mamba", {"model_type 'mamba'", "llama, mistral, qwen2"});
  change("hidden_act", "relu2", {"hidden_act 'relu2'", "it computes silu, swish, gelu"});
  change("rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}, {"rope_scaling", "'yarn'"});
  change("quantization_config", {{"quant_method", "gptq"}}, {"quantization_config", "quantized"});
  change("hidden_size", "wide", {"'hidden_size' should be a whole number", "wide"});
  change("hidden_size", -1, {"hidden_size", "-1"});
  change("num_hidden_layers", 1000000000000, {"num_hidden_layers"});
  change("num_key_value_heads", 3, {"num_key_value_heads", "multiple"});
  write_file(model + "/config.json", R"({"model_type": "llama", )");
  expect_model_refused({model + "/config.json", "not JSON"});
  write_file(model + "/config.json", "[]");
  expect_model_refused({model + "/config.json", "expected a JSON object"});
  Json without = config;
  without.erase("vocab_size");
  write_config(without);
  expect_model_refused({model + "/config.json", "'vocab_size' is missing"});
}

TEST_F(BadModel, VocabularySmallerThanTheTokenizers) {
  config["vocab_size"] = 200;
  write_config(config);
  expect_refused({"train", "--data", data, "--out", at("out"), "--model", model},
                 {"vocabulary of 200", "tokenizer's 257", "at least 257"});
  expect_refused({"generate", "--model", model, "--prompt", ""}, {"vocabulary of 200"});
}

TEST_F(BadModel, NoTokenizer) {
  const std::vector<std::string> words = {model, "no tokenizer.json", "--tokenizer FOLDER",
                                          "--tokenizer bytes"};
  BadInput::expect_refused({"train", "--data", data, "--out", at("out"), "--model", model}, words);
  BadInput::expect_refused({"generate", "--model", model, "--prompt", "a"}, words);
}

TEST_F(BadModel, WeightsThatAreNotFinite) {
  const Json& spec = header["model.layers.2.mlp.up_proj.weight"];
  const std::size_t begin = spec["data_offsets"][0];
  std::string bytes = tensors;
  bytes[begin + 2 * 777] = '\xc0';  // bf16 NaN
  bytes[begin + 2 * 777 + 1] = '\x7f';
  write_weights(header, bytes);
  expect_model_refused({"model.safetensors", "model.layers.2.mlp.up_proj.weight", "nan",
                        "element 777", "must be finite"});
}

TEST_F(BadModel, Tensors) {
  const std::string name = "model.layers.1.self_attn.q_proj.weight";
  Json changed = header;
  changed["model.extra"] = changed[name];
  changed.erase(name);
  write_weights(changed, tensors);
  expect_model_refused({"model.safetensors", "model.extra", "does not belong"});

  changed = header;
  changed["model.norm.weight.other"] = {
      {"dtype", "BF16"}, {"shape", {1}}, {"data_offsets", {tensors.size(), tensors.size() + 2}}};
  write_weights(changed, tensors + "ab");
  expect_model_refused({"model.norm.weight.other", "does not belong"});

  changed = header;
  const Json shape = changed[name]["shape"];
  changed[name]["shape"] = {shape[0].get<int>() * 2, shape[1].get<int>() / 2};
  write_weights(changed, tensors);
  expect_model_refused({name, "[256, 64]", "[128, 128]", "another model"});

  changed = header;
  changed[name]["dtype"] = "I16";
  write_weights(changed, tensors);
  expect_model_refused({"model.safetensors", name, "I16", "F32, BF16 and F16", "Save the model"});

  // A config of five blocks misses the fifth.
  write_weights(header, tensors);
  config["num_hidden_layers"] = 5;
  write_config(config);
  expect_model_refused({"tensor model.layers.4.", "is missing", "config.json"});
}

TEST_F(BadModel, Shards) {
  const std::string index = model + "/model.safetensors.index.json";
  const std::string shard = model + "/model-00001-of-00001.safetensors";
  std::filesystem::rename(model + "/model.safetensors", shard);
  Json map = Json::object();
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") map[name] = "model-00001-of-00001.safetensors";
  }
  const auto write_index = [&](const Json& weight_map) {
    write_file(index, Json{{"metadata", {{"total_size", 1}}}, {"weight_map", weight_map}}.dump());
  };
  expect_model_refused({model, "model-00001-of-00001.safetensors", "without an index"});
  write_index(map);
  const Finished good = run_ebb(
      {"generate", "--model", model, "--prompt", "a", "--max-tokens", "2", "--tokenizer", "bytes"});
  EXPECT_EQ(good.code, 0) << good.err;

  write_index(Json::array());
  expect_model_refused({index, "weight_map", "found a list", "Get the index again"});
  Json changed = map;
  changed["model.norm.weight"] = "../model.safetensors";
  write_index(changed);
  expect_model_refused({index, "model.norm.weight", "'../model.safetensors'", "same folder"});
  changed["model.norm.weight"] = "model-00002-of-00002.safetensors";
  write_index(changed);
  expect_model_refused(
      {index, "model.norm.weight", "model-00002-of-00002.safetensors", "get all its files again"});
  changed = map;
  changed.erase("model.norm.weight");
  write_index(changed);
  expect_model_refused(
      {index, "model-00001-of-00001.safetensors", "model.norm.weight", "does not name"});
  changed = map;
  changed["model.layers.9.more"] = "model-00001-of-00001.safetensors";
  write_index(changed);
  expect_model_refused({index, "'model.layers.9.more' should be in", "and is not"});
  write_index(map);
  std::filesystem::remove(shard);
  expect_model_refused({index, "names the file 'model-00001-of-00001.safetensors'",
                        "not in the folder", "get all its files again"});
}

TEST_F(BadModel, DamagedCheckpoints) {
  const std::string run = at("made");
  const std::string path = step_folder(run, 1) + "/model.safetensors";
  std::string bytes = read_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(path, bytes);
  const Arguments generate{"generate", "--model", run, "--prompt", "a", "--max-tokens", "2"};
  const Arguments train =
      Arguments{"train", "--data", data, "--out", at("out"), "--model", run} + batch(1);
  expect_refused(generate, {path, "is damaged", "another checkpoint", "--no-verify"});
  expect_refused(train, {path, "is damaged", "another checkpoint", "--no-verify"});
  EXPECT_EQ(run_ebb(generate + Arguments{"--no-verify"}).code, 0);
  EXPECT_EQ(run_ebb(train + Arguments{"--no-verify"}).code, 0);
}

TEST_F(BadModel, Chat) {
  const Arguments generate{"generate", "--model", model, "--prompt", "abc"};
  expect_refused(generate + Arguments{"--chat"},
                 {"--chat", model, "no chat template", "chat_template.jinja", "leave --chat out"});
  expect_refused(generate + Arguments{"--system", "be kind"}, {"--system", "add --chat"});
  BadInput::expect_refused(generate + Arguments{"--tokenizer", at("")},
                           {"--tokenizer", "no tokenizer.json", "give a folder"});
  write_file(model + "/generation_config.json", R"({"eos_token_id": "end"})");
  expect_refused(generate, {model + "/generation_config.json", "'eos_token_id'", "leave it out"});
}

TEST_F(BadModel, CutFiles) {
  const std::string path = model + "/model.safetensors";
  const std::string whole = read_file(path);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{7}, std::size_t{100}, whole.size() - 1}) {
    write_file(path, whole.substr(0, bytes));
    expect_model_refused({path, "not a valid safetensors file"});
  }
  std::filesystem::remove(path);
  expect_model_refused({model, "model.safetensors", "found no weights", "Get the folder again"});
  write_file(model + "/pytorch_model.bin", "x");
  expect_model_refused({model, "pytorch_model.bin", "safe_serialization=True"});
}

TEST_F(BadModel, Sampling) {
  const auto with = [&](const Arguments& flags) {
    return Arguments{"generate", "--model", model, "--prompt", "abc"} + flags;
  };
  expect_refused(with({"--temperature", "-1"}), {"--temperature -1", "0 or more"});
  expect_refused(with({"--temperature", "nan"}), {"--temperature nan", "0 or more"});
  expect_refused(with({"--top-p", "0"}), {"--top-p 0", "above 0"});
  expect_refused(with({"--top-p", "1.5"}), {"--top-p 1.5", "at most 1"});
  expect_refused(with({"--top-k", "-1"}), {"--top-k -1", "or more"});
  expect_refused(with({"--max-tokens", "0"}), {"--max-tokens 0", "at least 1"});
  expect_refused(with({"--threads", "-1"}), {"--threads -1", "0 (all that may be used) to"});
  expect_refused(with({"--seed", "-1"}), {"--seed: -1", "from 0 to"});
  expect_refused(with({"--max-tokens", "010"}), {"--max-tokens: 010", "in decimal digits"});
  expect_refused(with({"--dtype", "int4"}), {"--dtype 'int4'", "bf16 or fp32"});
  expect_refused({"generate", "--model", model, "--prompt", std::string(5000, 'a')},
                 {"--prompt", "5000 tokens", "4096 positions", "at most 4095"});
  const Finished tight = run_ebb(with({"--device-memory", "1MiB", "--tokenizer", "bytes"}));
  EXPECT_EQ(tight.code, kDoesNotFit);
  EXPECT_THAT(tight.err, AllOf(HasSubstr("does not fit"), HasSubstr("key-value cache"),
                               HasSubstr("Missing on the device: "), HasSubstr("--device-memory")));
  EXPECT_EQ(tight.out, "") << "what is refused prints nothing";
}

// A run of four steps with checkpoints of steps 2 and 4, to be resumed.
class BadResume : public BadInput {
 protected:
  void SetUp() override {
    run = trained("run", 4, {"--save-every", "2"});
    last = step_folder(run, 4);
  }

  Arguments resume(const Arguments& more = {}) const {
    return train(run, 6) + Arguments{"--schedule", "constant", "--resume"} + more;
  }

  std::string run;
  std::string last;
};

TEST_F(BadResume, DamagedCheckpoint) {
  for (const char* name : {"model.safetensors", "state.safetensors", "training.json"}) {
    const std::string path = last + "/" + name;
    const std::string whole = read_file(path);
    std::string flipped = whole;
    flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 1);
    for (const std::string& damaged : {whole.substr(0, whole.size() / 2), flipped}) {
      write_file(path, damaged);
      expect_refused(resume(), {path, "is damaged", "Resume from an older checkpoint", last,
                                step_folder(run, 2)});
    }
    write_file(path, whole);
  }
  std::filesystem::remove(last + "/state.safetensors");
  expect_refused(resume(), {last + "/state.safetensors", "is damaged", "none"});
  // What the message says works.
  std::filesystem::rename(last, at("away"));
  const Finished good = run_ebb(train(run, 4) + Arguments{"--resume"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("Going on from step 2"));
}

TEST_F(BadResume, OtherSettings) {
  const auto with = [&](const Arguments& flags) {
    return train(run, 4) + Arguments{"--resume"} + flags;
  };
  const std::string advice = "Give the same settings, or start a new run in another --out";
  expect_refused(with({"--learning-rate", "0.5"}), {"peak: 0.0003", "0.5 now", advice});
  expect_refused(with({"--seed", "5"}), {"seed: 0", "5 now", advice});
  expect_refused(with({"--dtype", "fp32"}), {"dtype: \"bf16\"", "\"fp32\" now", advice});
  expect_refused(with({"--accumulate", "2"}), {"accumulate: 1", "2 now", advice});
  expect_refused(with({"--clip", "0"}), {"clip: 1.0", "0.0 now", advice});
  const Arguments start{"train", "--data", data, "--out", run, "--resume", "--steps", "4"};
  expect_refused(
      start + Arguments{"--model", "preset:tiny", "--sequence", "48", "--micro-batch", "2"},
      {"sequence: 32", "48 now", advice});
  expect_refused(
      start + Arguments{"--model", "preset:small", "--sequence", "32", "--micro-batch", "2"},
      {"hidden_size: 128", "320 now", advice});
  write_file(at("other.txt"), std::string(5000, 'b'));
  expect_refused(Arguments{"train", "--model", "preset:tiny", "--data", at("other.txt"), "--out",
                           run, "--resume"} +
                     batch(4),
                 {"'data.txt': missing now", "'other.txt': new", "--accept-changed-data"});
}

}  // namespace
}  // namespace ebb::cli
