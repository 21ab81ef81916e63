// Who decides how tokens are chosen: the user, then the model's folder, then Ebb.
#include "engine/generation_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "files/made_files.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "text/byte_tokenizer.h"

namespace ebb::engine {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class GenerationSettingsTest : public testing::Test {
 protected:
  GenerationSettings choose(const GenerateOptions& options = {}, bool bytes = false) {
    return choose_generation(files::read_generation_config(files, source.folder), source, options,
                             tokenizer, bytes);
  }
  void store(const std::string& json) {
    files::write_text(files, folder / "generation_config.json", json);
  }
  std::string refusal(const std::string& json) {
    store(json);
    try {
      choose();
    } catch (const FormatError& error) {
      return error.what();
    }
    return "(no FormatError)";
  }

  io::TempFolder folder;
  io::PosixFileSystem files;
  text::ByteTokenizer tokenizer;
  files::ModelSource source{
      .name = "m", .config = {}, .folder = folder.path(), .stored_config = Json::object()};
};

TEST_F(GenerationSettingsTest, EbbsOwnWhereNothingIsSaid) {
  const GenerationSettings chosen = choose();
  EXPECT_EQ(chosen.sampling.temperature, 0.8);
  EXPECT_EQ(chosen.sampling.top_k, 0);
  EXPECT_EQ(chosen.sampling.top_p, 1.0);
  EXPECT_THAT(chosen.stops, ElementsAre(256));
  EXPECT_THAT(chosen.explanation,
              AllOf(HasSubstr("temperature 0.8 (default)"), HasSubstr("ends at 256 (tokenizer)")));
}

TEST_F(GenerationSettingsTest, TheFileWinsOverDefaultsAndFlagsOverTheFile) {
  store(R"({"do_sample": true, "temperature": 0.5, "top_k": 20, "top_p": 0.9})");
  GenerationSettings chosen = choose();
  EXPECT_EQ(chosen.sampling.temperature, 0.5);
  EXPECT_EQ(chosen.sampling.top_k, 20);
  EXPECT_EQ(chosen.sampling.top_p, 0.9);
  EXPECT_THAT(chosen.explanation, HasSubstr("top-k 20 (generation_config.json)"));
  GenerateOptions options;
  options.top_k = 3;
  options.seed = 9;
  chosen = choose(options);
  EXPECT_EQ(chosen.sampling.temperature, 0.5);
  EXPECT_EQ(chosen.sampling.top_k, 3);
  EXPECT_EQ(chosen.sampling.top_p, 0.9);
  EXPECT_EQ(chosen.sampling.seed, 9u);
  EXPECT_THAT(chosen.explanation, HasSubstr("top-k 3 (as given)"));
}

TEST_F(GenerationSettingsTest, MinPAndThePenaltyAreFollowedToo) {
  store(R"({"do_sample": true, "min_p": 0.05, "repetition_penalty": 1.05})");
  GenerationSettings chosen = choose();
  EXPECT_EQ(chosen.sampling.min_p, 0.05);
  EXPECT_EQ(chosen.sampling.repetition_penalty, 1.05);
  EXPECT_THAT(chosen.explanation, AllOf(HasSubstr("min-p 0.05 (generation_config.json)"),
                                        HasSubstr("repetition-penalty 1.05 (generation_")));
  GenerateOptions options;
  options.min_p = 0;
  options.repetition_penalty = 1.2;
  options.repetition_window = 64;
  chosen = choose(options);
  EXPECT_EQ(chosen.sampling.min_p, 0);
  EXPECT_EQ(chosen.sampling.repetition_penalty, 1.2);
  EXPECT_EQ(chosen.sampling.repetition_window, 64);
  // The penalty changes which token is the likeliest; min-p does not.
  store(R"({"min_p": 0.05, "repetition_penalty": 1.05})");
  chosen = choose();
  EXPECT_EQ(chosen.sampling.temperature, 0);
  EXPECT_EQ(chosen.sampling.min_p, 0);
  EXPECT_EQ(chosen.sampling.repetition_penalty, 1.05);
  store(R"({"repetition_penalty": 0})");
  EXPECT_EQ(choose().sampling.repetition_penalty, 1) << "not used";
  store("{}");
  EXPECT_THAT(choose().explanation, testing::Not(HasSubstr("min-p")));
}

TEST_F(GenerationSettingsTest, WithoutDoSampleTheLikeliestUnlessAFlagAsksToDraw) {
  for (const char* text : {"{}", R"({"do_sample": false, "temperature": 0.6})"}) {
    store(text);
    EXPECT_EQ(choose().sampling.temperature, 0) << text;
  }
  GenerateOptions options;
  options.top_p = 0.5;
  EXPECT_EQ(choose(options).sampling.temperature, 0.6);
  options.temperature = 1.25;
  EXPECT_EQ(choose(options).sampling.temperature, 1.25);
}

TEST_F(GenerationSettingsTest, WhereTextsEnd) {
  source.stored_config = {{"eos_token_id", 5}};
  EXPECT_THAT(choose().stops, ElementsAre(5));
  store(R"({"eos_token_id": [7, 9]})");
  const GenerationSettings chosen = choose();
  EXPECT_THAT(chosen.stops, ElementsAre(7, 9));
  EXPECT_THAT(chosen.explanation, HasSubstr("ends at 7 or 9 (generation_config.json)"));
  store(R"({"eos_token_id": 8})");
  EXPECT_THAT(choose().stops, ElementsAre(8));
  store(R"({"eos_token_id": null})");
  EXPECT_THAT(choose().stops, ElementsAre(5));
  EXPECT_THAT(choose({}, true).stops, ElementsAre(256)) << "bytes know their own end only";
}

TEST_F(GenerationSettingsTest, WrongFieldsAreNamed) {
  const std::string path = (folder / "generation_config.json").string();
  const auto refused = [&](const char* json, const char* what) {
    EXPECT_THAT(refusal(json), AllOf(HasSubstr(path), HasSubstr(what))) << json;
  };
  refused("[]", "expected a JSON object");
  refused("{", "not JSON");
  refused(R"({"eos_token_id": "two"})", "'eos_token_id' should be a token's id or a list of them");
  refused(R"({"eos_token_id": [1, -2]})", "'eos_token_id'");
  refused(R"({"eos_token_id": 4294967296})", "'eos_token_id'");
  refused(R"({"do_sample": "yes"})", "'do_sample' should be true or false");
  refused(R"({"temperature": -1})", "'temperature' should be a number from 0 to");
  refused(R"({"top_p": 1.5})", "'top_p' should be a number from 0 to 1");
  refused(R"({"min_p": 2})", "'min_p' should be a number from 0 to 1");
  refused(R"({"repetition_penalty": "high"})", "'repetition_penalty' should be a number");
  refused(R"({"top_k": 2.5})", "'top_k' should be a whole number from 0");
}

TEST_F(GenerationSettingsTest, FlagsAreCheckedEvenWhereTheyDoNotMatter) {
  GenerateOptions options;
  options.temperature = 0;
  options.top_p = 7;
  EXPECT_THROW(choose(options), ConfigError);
}

}  // namespace
}  // namespace ebb::engine
