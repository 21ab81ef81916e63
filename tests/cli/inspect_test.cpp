// ebb inspect: what it says of everything that people bring.
#include <cstring>

#include "cli/small_commands.h"
#include "paths.h"
#include "plan/profile.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class InspectTest : public SmallCommands {
 protected:
  // The text, after making sure that the JSON form is one object of this kind.
  static std::string shown(const std::string& path, const std::string& kind = "") {
    const Finished end = run_ebb({"inspect", path});
    EXPECT_EQ(end.code, 0) << end.err;
    const Json json = as_json(path);
    EXPECT_TRUE(json.is_object());
    if (kind.empty()) return end.out;
    EXPECT_EQ(json["kind"], kind);
    return end.out;
  }

  static Json as_json(const std::string& path) {
    return Json::parse(run_ebb({"inspect", path, "--json"}).out);
  }

  static std::string refused(const std::string& path) {
    const Finished end = run_ebb({"inspect", path});
    EXPECT_EQ(end.code, 1) << end.out;
    EXPECT_EQ(end.out, "");
    EXPECT_THAT(end.err, HasSubstr(path));
    return end.err;
  }

  // A copy of the golden Qwen2 model's folder.
  std::string golden_model() const {
    const std::string model = at("golden");
    std::filesystem::create_directory(model);
    for (const char* name : {"config.json", "model.safetensors"}) {
      std::filesystem::copy(golden_folder("training/qwen2") / name, model + "/" + name);
    }
    return model;
  }
};

TEST_F(InspectTest, WhatProbePrints) {
  const Finished probe = run_ebb({"probe", "--device", "cpu", "--seconds", "0", "--json"});
  ASSERT_EQ(probe.code, 0) << probe.err;
  EXPECT_GT(Json::parse(probe.out)["device_memory"].get<std::int64_t>(), 0);
  write_file(at("machine.json"), probe.out);
  const Finished shown = run_ebb({"inspect", at("machine.json")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, testing::HasSubstr("measured"));
}

TEST_F(InspectTest, PresetsRunsAndCheckpoints) {
  EXPECT_THAT(
      shown("preset:tiny", "preset"),
      AllOf(HasSubstr("llama"), HasSubstr("822 k parameters"), HasSubstr("4 blocks of width 128")));
  const std::string run = trained("run", 2);
  const std::string of_run = shown(run, "checkpoint");
  EXPECT_THAT(of_run, AllOf(HasSubstr("Checkpoint of step 2"), HasSubstr("checksums are right"),
                            HasSubstr("numerics key"), HasSubstr("model.embed_tokens.weight"),
                            HasSubstr("Ebb can train it and generate with it")));
  const std::string last = step_folder(run, 2);
  EXPECT_EQ(shown(last, "checkpoint"), of_run);
  EXPECT_THAT(shown(last + "/manifest.json"), HasSubstr("checksums are right\n"));
  EXPECT_THAT(shown(last + "/training.json"), HasSubstr("Training state: step 2"));
  EXPECT_THAT(shown(last + "/state.safetensors", "safetensors"),
              AllOf(HasSubstr("model.norm.weight.first"), HasSubstr("F32"), HasSubstr("I16")));
  std::string bytes = read_file(last + "/state.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(last + "/state.safetensors", bytes);
  const Finished broken = run_ebb({"inspect", run});
  EXPECT_EQ(broken.code, 1);
  EXPECT_THAT(broken.out, AllOf(HasSubstr("BROKEN"), HasSubstr("state.safetensors")));
  EXPECT_EQ(as_json(run)["checkpoint"]["sound"], false);
}

TEST_F(InspectTest, AModelsFolder) {
  const std::string model = golden_model();
  write_file(model + "/generation_config.json", R"({"eos_token_id": [7, 9], "do_sample": true,
                                                    "temperature": 0.7})");
  EXPECT_THAT(shown(model, "model"),
              AllOf(HasSubstr("qwen2 family"), HasSubstr("2 blocks of width 32"),
                    HasSubstr("weights in bf16 take"), HasSubstr("training state (exact)"),
                    HasSubstr("model.safetensors: safetensors, 26 tensors (26 F32)"),
                    HasSubstr("draws tokens, temperature 0.7, ends at 7 or 9"),
                    HasSubstr("Tokenizer: none"), HasSubstr("model.norm.weight")));
  const Json json = as_json(model);
  EXPECT_EQ(json["parameters"], json["needs"]["weight_bytes_bf16"].get<int>() / 2);
  EXPECT_EQ(json["files"][0]["types"]["F32"], 26);
  EXPECT_EQ(json["tensors"].size(), 26u);
  EXPECT_EQ(json["generation"]["eos_token_id"], Json({7, 9}));
  EXPECT_THAT(shown(model + "/config.json", "configuration of a model"),
              AllOf(HasSubstr("qwen2 family"), HasSubstr("Ebb can train it")));
  EXPECT_THAT(shown(model + "/generation_config.json"), HasSubstr("temperature 0.7"));
}

TEST_F(InspectTest, WhatEbbCannotUseIsStillDescribed) {
  const std::string model = golden_model();
  const Json config = Json::parse(read_file(model + "/config.json"));
  Json changed = config;
  changed["model_type"] = "mamba";
  write_file(model + "/config.json", changed.dump());
  const std::string text = shown(model, "model");
  EXPECT_THAT(text, AllOf(HasSubstr("model_type \"mamba\""), HasSubstr("Ebb cannot train this: "),
                          HasSubstr("model_type 'mamba' is not supported"),
                          HasSubstr("model.safetensors: safetensors, 26 tensors")));
  EXPECT_EQ(as_json(model)["usable"], false);
  EXPECT_THAT(shown(model + "/config.json"), HasSubstr("Ebb cannot train this: "));

  changed = config;
  changed["num_hidden_layers"] = 3;
  changed.erase("layer_types");
  write_file(model + "/config.json", changed.dump());
  EXPECT_THAT(shown(model), AllOf(HasSubstr("Ebb cannot train this: "),
                                  HasSubstr("model.layers.2."), HasSubstr("is missing")));

  write_file(model + "/config.json", config.dump());
  std::filesystem::remove(model + "/model.safetensors");
  write_file(model + "/pytorch_model.bin", "x");
  EXPECT_THAT(shown(model), AllOf(HasSubstr("qwen2 family"), HasSubstr("Ebb cannot train this: "),
                                  HasSubstr("safe_serialization=True")));
}

TEST_F(InspectTest, AnIndex) {
  const std::string path = at("model.safetensors.index.json");
  write_file(at("a.safetensors"), "x");
  write_file(path, R"({"metadata": {"total_size": 5}, "weight_map":
      {"t": "a.safetensors", "u": "b.safetensors", "v": "a.safetensors"}})");
  EXPECT_THAT(shown(path),
              AllOf(HasSubstr("3 tensors in 2 files"), HasSubstr("a.safetensors: 2 tensors\n"),
                    HasSubstr("b.safetensors: 1 tensors - this file is MISSING")));
  EXPECT_EQ(as_json(path)["complete"], false);
}

TEST_F(InspectTest, Jsonl) {
  const std::string path = at("data.jsonl");
  write_file(path, R"({"prompt": "a", "completion": "b", "id": 1}
{"prompt": "c", "completion": "d"}
)");
  EXPECT_THAT(shown(path, "jsonl"),
              AllOf(HasSubstr("2 lines of prompt and completion"),
                    HasSubstr("keys: completion, id, prompt"), HasSubstr("Ebb can train on it")));
  EXPECT_EQ(as_json(path)["keys"]["prompt"], 2);
  write_file(path, R"({"messages": [{"role": "user", "content": "a"}, )"
                   R"({"role": "assistant", "content": "b"}]})");
  EXPECT_THAT(shown(path), AllOf(HasSubstr("1 lines of messages"), HasSubstr("can train on it")));
  write_file(path, "{\"text\": \"a\"}\n\n{\"txt\": 1}\nnot json\n[1]\n{\"text\": \"\xff\"}");
  EXPECT_THAT(
      shown(path),
      AllOf(HasSubstr("6 lines of text"), Not(HasSubstr("line 2:")),
            HasSubstr("line 3: \"text\" is missing"), HasSubstr("'txt'"),
            HasSubstr("line 4: this is not JSON"), HasSubstr("line 5: expected a JSON"),
            HasSubstr("line 6, byte 11: 0xff is not UTF-8"), HasSubstr("4 lines are wrong")));
  EXPECT_EQ(as_json(path)["bad_lines"], 4);
  write_file(path, "");
  EXPECT_THAT(shown(path), AllOf(HasSubstr("0 lines"), HasSubstr("it has no lines")));
  // The scan ends within the first line.
  write_file(path, "{\"text\": \"" + std::string(65 << 20, 'a'));
  EXPECT_THAT(shown(path), HasSubstr("Whether Ebb can train on it is not known"));
  // Known by its content, too.
  write_file(at("records"), "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  EXPECT_THAT(shown(at("records"), "jsonl"), HasSubstr("2 lines"));
}

TEST_F(InspectTest, TokenFiles) {
  const Finished made =
      run_ebb({"tokenize", "--tokenizer", "bytes", "--data", data, "--out", at("data.tokens")});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(shown(at("data.tokens"), "token file"),
              AllOf(HasSubstr("Token file of Ebb: "), HasSubstr("tokens of 2 bytes"),
                    HasSubstr("ids below 257"), HasSubstr("--data " + at("data.tokens"))));
  EXPECT_EQ(as_json(at("data.tokens"))["tokens"], read_file(data).size() + 1);
}

TEST_F(InspectTest, Profiles) {
  plan::Profile profile = plan::rough_cpu_profile(4);
  profile.device = "cpu";
  write_file(at("machine.json"), plan::to_json(profile).dump());
  EXPECT_THAT(shown(at("machine.json"), "profile of a machine"),
              AllOf(HasSubstr("Machine: "), HasSubstr("matrix products"), HasSubstr("4 threads")));
}

TEST_F(InspectTest, Texts) {
  EXPECT_THAT(shown(data, "text"), AllOf(HasSubstr("200 line ends"), HasSubstr("valid UTF-8"),
                                         HasSubstr("--data " + data)));
  write_file(at("latin.txt"), "caf\xe9 au lait\n");
  EXPECT_THAT(shown(at("latin.txt")), HasSubstr("not all of it is UTF-8"));
  write_file(at("cut.txt"), "caf\xc3");
  EXPECT_THAT(shown(at("cut.txt")), HasSubstr("not all of it is UTF-8"));
  std::filesystem::create_directory(at("texts"));
  write_file(at("texts/one.txt"), "one");
  write_file(at("texts/two.txt"), "two");
  write_file(at("texts/three.md"), "three");
  EXPECT_THAT(shown(at("texts"), "folder of data"),
              AllOf(HasSubstr("3 files"), HasSubstr("2 .txt"), HasSubstr("1 .md")));
}

TEST_F(InspectTest, WhatIsNotKnown) {
  const auto file = [&](const std::string& name, const std::string& content) {
    write_file(at(name), content);
    return at(name);
  };
  for (const std::string& path :
       {file("zeros", std::string(100, '\0')), file("empty", ""), file("other.json", "{\"a\": 1}"),
        file("list.json", "[1]"), file("broken.json", "{"),
        file("model.bin", "PK\3\4 and so on")}) {
    EXPECT_THAT(refused(path),
                AllOf(HasSubstr("Ebb knows: "), HasSubstr("tokenizer.json"), HasSubstr("JSONL")));
  }
  EXPECT_THAT(refused(file("model.gguf", "GGUF\3\1\1\1")), HasSubstr("GGUF version 16843011"));
  EXPECT_THAT(refused(at("model.bin")), HasSubstr("safe_serialization=True"));
  EXPECT_THAT(refused(file("x.safetensors", "short")), HasSubstr("not a valid safetensors file"));
  EXPECT_THAT(refused(at("nowhere")), HasSubstr("no such file or folder"));
}

// Names from files do not reach the terminal's control.
TEST_F(InspectTest, NamesAreMadePrintable) {
  const std::string header = R"({"t\u001b[31m":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const std::uint64_t length = header.size();
  write_file(at("x.safetensors"),
             std::string(reinterpret_cast<const char*>(&length), 8) + header + "1");
  EXPECT_THAT(shown(at("x.safetensors")), AllOf(HasSubstr("t?[31m"), Not(HasSubstr("\033"))));
}

}  // namespace
}  // namespace ebb::cli
