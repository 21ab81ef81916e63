// ebb quantize as people use it.
#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Quantize : public SmallCommands {
 protected:
  Finished quantize(const std::string& model, const std::string& type, const Arguments& more = {}) {
    return run_ebb(Arguments{"quantize", "--model", model, "--type", type, "--out", out} + more);
  }
  Json generated(const std::string& model) const {
    const Finished end = run_ebb({"generate", "--model", model, "--max-tokens", "8", "--prompt",
                                  "The tide", "--json", "--temperature", "0", "--dtype", "fp32"});
    EXPECT_EQ(end.code, 0) << end.err;
    return end.code == 0 ? Json::parse(end.out) : Json();
  }

  std::string out = at("model.gguf");
};

TEST_F(Quantize, WhatWasTrainedGeneratesFromItsFile) {
  const std::string run = trained("run", 2);
  const Finished wide = quantize(run, "f32");
  EXPECT_EQ(wide.code, 0) << wide.err;
  EXPECT_THAT(wide.out, AllOf(HasSubstr("100%"), HasSubstr("model.gguf: 3.14 MiB"),
                              HasSubstr("32.03 bits each (38 F32)")));
  const Json expected = generated(run);
  const Json found = generated(out);
  EXPECT_EQ(found["prompt_ids"], expected["prompt_ids"]);
  EXPECT_EQ(found["ids"], expected["ids"]);
  EXPECT_EQ(found["random_weights"], false);
  // A GGUF file is replaced, and a GGUF file can be the model.
  const std::string wide_file = at("wide.gguf");
  std::filesystem::rename(out, wide_file);
  EXPECT_EQ(quantize(wide_file, "Q8_0").code, 0);
  EXPECT_EQ(quantize(wide_file, "q8_0").code, 0);
  EXPECT_EQ(generated(out)["prompt_ids"], expected["prompt_ids"]);
  const Finished shown = run_ebb({"inspect", out});
  EXPECT_THAT(shown.out, AllOf(HasSubstr("Ebb can train it and generate with it"),
                               HasSubstr("general.file_type = 7"), HasSubstr("Q8_0")));
}

TEST_F(Quantize, TellsWhatIsLost) {
  const Finished made = quantize("preset:tiny", "q4_k_m");
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("blk.0.attn_q.weight as Q5_0"));
  EXPECT_THAT(made.err, HasSubstr("preset:tiny are random"));
  const std::string first = at("first.gguf");
  std::filesystem::rename(out, first);
  const Finished again = quantize(first, "q4_0");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("have lost twice"));
}

TEST_F(Quantize, WhatIsThereIsKept) {
  write_file(out, "a letter");
  const Finished other = quantize("preset:tiny", "q8_0");
  EXPECT_NE(other.code, 0);
  EXPECT_THAT(other.err,
              AllOf(HasSubstr("--out"), HasSubstr("no GGUF file"), HasSubstr("another name")));
  EXPECT_EQ(read_file(out), "a letter");
  std::filesystem::remove(out);
  EXPECT_EQ(quantize("preset:tiny", "f16").code, 0);
  const Finished itself = quantize(out, "q8_0");
  EXPECT_NE(itself.code, 0);
  EXPECT_THAT(itself.err, HasSubstr("it is the model that is read"));
}

TEST_F(Quantize, BadWords) {
  EXPECT_THAT(quantize("preset:tiny", "q9_z").err,
              AllOf(HasSubstr("--type 'q9_z'"), HasSubstr("q4_k_m")));
  out = at("nowhere/model.gguf");
  EXPECT_THAT(quantize("preset:tiny", "q8_0").err, HasSubstr("there is no folder"));
  out = folder.path().string();
  EXPECT_THAT(quantize("preset:tiny", "q8_0").err, HasSubstr("it is a folder"));
}

// Killed at any time, there is no file or a whole one.
TEST_F(Quantize, KilledLeavesNoHalfFile) {
  for (int wait = 0; wait < 4; ++wait) {
    std::filesystem::remove(out);
    Process process({"quantize", "--model", "preset:small", "--type", "q4_k_m", "--out", out});
    process.run_for(0.1 + 0.1 * wait);
    process.kill();
    if (!std::filesystem::exists(out)) continue;
    EXPECT_EQ(run_ebb({"inspect", out}).code, 0) << wait;
  }
}

}  // namespace
}  // namespace ebb::cli
