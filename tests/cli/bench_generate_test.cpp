// ebb bench generate: rows, JSON, crossed options, refusals.
#include <cmath>
#include <set>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class BenchGenerate : public SmallCommands {
 protected:
  // Speeds of sorts: numbers of tests are not looked at.
  void probe(const std::string& threads) const {
    const Finished end =
        run_ebb({"probe", "--device", "cpu", "--seconds", "0", "--threads", threads});
    ASSERT_EQ(end.code, 0) << end.err;
  }

  static Arguments command(const Arguments& more) {
    return Arguments{"bench", "generate", "--device", "cpu"} + more;
  }

  // A short look at ceilings: they are rates all the same.
  inline static const Arguments kQuick = {"--ceiling-seconds", "0", "--repetitions", "2"};

  static Json bench(const Arguments& more) {
    const Finished end = run_ebb(command(more + kQuick + Arguments{"--json"}));
    EXPECT_EQ(end.code, 0) << end.err;
    return Json::parse(end.out);
  }

  static std::vector<std::string> tests_of(const Json& json) {
    std::vector<std::string> tests;
    for (const Json& row : json.at("rows")) tests.push_back(row.at("test"));
    return tests;
  }
};

TEST_F(BenchGenerate, EveryTestAtEveryDepthWithSamplesPredictionAndShare) {
  probe("2");
  const Json json = bench({"--model", "preset:tiny", "--threads", "2", "--prompt-tokens", "70,5",
                           "--tokens", "3", "--pg", "9,2", "--depth", "0", "40"});
  for (const char* key : {"ebb", "commit", "date", "device_name", "processor", "isa", "speeds"}) {
    EXPECT_THAT(json.at(key).get<std::string>(), Not("")) << key;
  }
  EXPECT_EQ(json.at("device"), "cpu");
  EXPECT_EQ(json.at("repetitions"), 2);
  EXPECT_THAT(tests_of(json), testing::ElementsAre("pp70", "pp5", "tg3", "pp9+tg2", "pp70 @ d40",
                                                   "pp5 @ d40", "tg3 @ d40", "pp9+tg2 @ d40"));
  const double deep = json.at("rows")[6].at("bytes_per_token").get<double>();
  EXPECT_GT(deep, json.at("rows")[2].at("bytes_per_token")) << "the cache is read, too";
  const Json batch = bench({"--model", "preset:tiny", "--threads", "2", "--tokens", "3", "--pg",
                            "9,2", "--depth", "40", "--batch", "1,3"});
  EXPECT_THAT(tests_of(batch), testing::ElementsAre("tg3 @ d40", "pp9+tg2 @ d40", "tg3 x 3 @ d40",
                                                    "pp9+tg2 x 3 @ d40"));
  EXPECT_EQ(batch.at("rows")[2].at("batch"), 3);
  EXPECT_LT(batch.at("rows")[2].at("bytes_per_token"), batch.at("rows")[0].at("bytes_per_token"));
  EXPECT_EQ(batch.at("rows")[3].at("peaks").at("host").at("measured"),
            batch.at("rows")[3].at("peaks").at("host").at("predicted"));
  for (const Json& row : json.at("rows")) {
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(row.at("model"), "preset:tiny");
    EXPECT_EQ(row.at("dtype"), "bf16");
    EXPECT_EQ(row.at("threads"), 2);
    EXPECT_GT(row.at("weight_bytes"), 2 * row.at("parameters").get<std::int64_t>() - 1);
    EXPECT_EQ(row.at("weights_on").at("device"), row.at("weight_bytes"));
    ASSERT_EQ(row.at("samples").size(), 2u);
    const double first = row.at("samples")[0], second = row.at("samples")[1];
    EXPECT_NEAR(row.at("tokens_per_second").get<double>() / ((first + second) / 2), 1, 1e-9);
    EXPECT_NEAR(row.at("standard_deviation").get<double>(), std::abs(first - second) / std::sqrt(2),
                1e-6 * first);
    const double timed = row.at("prompt_tokens").get<double>() + row.at("tokens").get<double>();
    EXPECT_NEAR(row.at("sample_seconds")[0].get<double>() * first / timed, 1, 1e-9);
    const double predicted = row.at("predicted_tokens_per_second");
    EXPECT_GT(predicted, 0);
    EXPECT_NEAR(row.at("predicted_over_measured").get<double>() *
                    row.at("tokens_per_second").get<double>() / predicted,
                1, 1e-9);
    // A model this small is all overhead. What else the machine does may have slowed the ceiling
    // alone, but not by much.
    EXPECT_GT(row.at("share_of_ceiling"), 0);
    EXPECT_LT(row.at("share_of_ceiling"), 5);
    EXPECT_EQ(row.at("prompt_flops") > 0, row.at("prompt_tokens") > 0);
    EXPECT_EQ(row.at("bytes_per_token") > 0, row.at("tokens") > 0);
    for (const char* tier : {"device", "host"}) {
      const Json& peak = row.at("peaks").at(tier);
      EXPECT_LE(peak.at("measured"), peak.at("predicted"));
      EXPECT_LE(peak.at("predicted"), peak.at("limit"));
    }
  }
}

TEST_F(BenchGenerate, OptionsThatAreListsAreCrossed) {
  // Two profiles are not kept at once: rows are planned with one file's speeds.
  const std::string file = at("profile.json");
  run_ebb({"probe", "--device", "cpu", "--seconds", "0", "--out", file});
  const Json json =
      bench({"--profile", file, "--model", "preset:tiny", "--dtype", "bf16,fp32", "--threads",
             "1,2", "--device-memory", "256MiB", "512MiB", "--prompt-tokens", "2"});
  ASSERT_EQ(json.at("rows").size(), 8u);
  EXPECT_EQ(json.at("ceilings").size(), 4u) << "one for each type and number of threads";
  std::set<std::string> different;
  for (const Json& row : json.at("rows")) {
    different.insert(fmt::format("{} {} {} {}", row.at("model").dump(), row.at("dtype").dump(),
                                 row.at("threads").dump(), row.at("device_memory").dump()));
    EXPECT_EQ(row.at("peaks").at("device").at("limit"), row.at("device_memory"));
  }
  EXPECT_EQ(different.size(), 8u);
}

TEST_F(BenchGenerate, ATestThatDoesNotFitSaysWhatIsMissingAndOthersGoOn) {
  probe("0");
  // Weights could leave for host memory: that has room for what it must hold alone.
  const Arguments flags = {"--model", "preset:tiny", "--prompt-tokens", "8",    "--depth",
                           "2000",    "0",           "--device-memory", "5MiB", "--host-memory",
                           "4MiB"};
  const Json json = bench(flags);
  ASSERT_EQ(json.at("rows").size(), 2u);
  EXPECT_THAT(json.at("rows")[0].at("does_not_fit").get<std::string>(),
              HasSubstr("Missing on the device"));
  EXPECT_FALSE(json.at("rows")[0].contains("tokens_per_second"));
  EXPECT_GT(json.at("rows")[1].at("tokens_per_second"), 0);

  const Finished text = run_ebb(command(flags + kQuick));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr("| model "), HasSubstr("| tiny "), HasSubstr(" pp8 |"),
                              HasSubstr("pp8 @ d2000 | "), HasSubstr(" ± "),
                              HasSubstr("does not fit: Missing on the device"),
                              HasSubstr("host memory is read at "), HasSubstr("build: ")));
  EXPECT_THAT(text.err, HasSubstr("preset:tiny pp8: "));
}

TEST_F(BenchGenerate, WhatIsNoTestIsRefusedBeforeAnythingIsMeasured) {
  const auto refused = [&](const Arguments& flags, const std::vector<std::string>& words) {
    const Finished end = run_ebb(command(flags));
    EXPECT_EQ(end.code, 1) << end.err;
    EXPECT_EQ(end.out, "");
    EXPECT_THAT(end.err, Not(HasSubstr("%  "))) << "progress";
    for (const std::string& word : words) EXPECT_THAT(end.err, HasSubstr(word));
  };
  const Arguments tiny = {"--model", "preset:tiny"};
  refused(tiny + Arguments{"--tokens", "0"}, {"--tokens 0", "expected 1 to"});
  refused(tiny + Arguments{"--prompt-tokens", "5", "-1"}, {"--prompt-tokens -1"});
  refused(tiny + Arguments{"--pg", "0,4"}, {"--pg 0", "expected 1 to"});
  refused(tiny + Arguments{"--pg", "512"}, {"--pg '512'", "512,128"});
  refused(tiny + Arguments{"--depth", "1000000"}, {"pp512 @ d1000000", "preset:tiny knows"});
  refused(tiny + Arguments{"--repetitions", "0"}, {"--repetitions 0"});
  refused(tiny + Arguments{"--ceiling-seconds", "nan"}, {"--ceiling-seconds"});
  refused(tiny + Arguments{"--threads", "100000"}, {"--threads 100000"});
  refused(tiny + Arguments{"--device-memory", "much"}, {"--device-memory"});
  refused({"--model", "preset:moon"}, {"preset:moon"});
}

}  // namespace
}  // namespace ebb::cli
