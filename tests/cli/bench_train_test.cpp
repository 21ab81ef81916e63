// ebb bench train, and the utilization that steps and plans have.
#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class BenchTrain : public SmallCommands {
 protected:
  // Speeds of sorts: numbers of tests are not looked at.
  void probe() const {
    const Finished end = run_ebb({"probe", "--device", "cpu", "--seconds", "0"});
    ASSERT_EQ(end.code, 0) << end.err;
  }

  Arguments rows(const Arguments& more) const {
    return Arguments{"bench",      "train", "--device",      "cpu", "--model",   "preset:tiny",
                     "--sequence", "16",    "--micro-batch", "1",   "--warm-up", "1",
                     "--steps",    "2"} +
           more;
  }

  Json bench(const Arguments& more) const {
    const Finished end = run_ebb(rows(more + Arguments{"--json"}));
    EXPECT_EQ(end.code, 0) << end.err;
    return Json::parse(end.out);
  }
};

TEST_F(BenchTrain, PlacementChangesLimitsAndPeaksButNoWeights) {
  probe();
  const Json json = bench({"--limit", "resident", "-50%", "-90%", "off", "--accumulate", "1"});
  EXPECT_EQ(json.at("device"), "cpu");
  EXPECT_EQ(json.at("steps"), 2);
  EXPECT_EQ(json.at("digests_agree"), true);
  EXPECT_EQ(json.at("matrix_flops_per_second").at("source"), "measured");
  const Json& all = json.at("rows");
  ASSERT_EQ(all.size(), 4u);
  for (const Json& row : all) {
    SCOPED_TRACE(row.dump());
    EXPECT_EQ(row.at("tokens_per_step"), 16);
    EXPECT_EQ(row.at("state_format"), "exact");
    EXPECT_EQ(row.at("weights_digest"), all[0].at("weights_digest"));
    EXPECT_EQ(row.at("step_seconds").size(), 2u);
    for (const char* key : {"predicted_tokens_per_second", "tokens_per_second", "utilization",
                            "share_of_resident", "model_flops_per_step"}) {
      EXPECT_GT(row.at(key), 0) << key;
    }
    EXPECT_NEAR(row.at("predicted_over_measured").get<double>(),
                row.at("predicted_tokens_per_second").get<double>() /
                    row.at("tokens_per_second").get<double>(),
                1e-9);
    for (const char* tier : {"device", "host"}) {
      const Json& peak = row.at("peaks").at(tier);
      EXPECT_EQ(peak.at("predicted"), peak.at("measured"));
      EXPECT_LE(peak.at("measured"), peak.at("limit"));
    }
    for (const char* phase : {"search", "plan", "allocate", "initialize"}) {
      EXPECT_GE(row.at("start_seconds").at(phase), 0);
    }
    EXPECT_TRUE(row.at("plan").get<std::string>().starts_with("--states "));
  }
  const auto device = [&](int row, const char* key) {
    return all[static_cast<std::size_t>(row)].at("peaks").at("device").at(key).get<double>();
  };
  // The states: ten bytes a parameter.
  const double states = 10 * all[0].at("parameters").get<double>();
  EXPECT_NEAR(device(0, "measured") - device(1, "limit"), 0.5 * states, 0.02 * states);
  EXPECT_NEAR(device(0, "measured") - device(2, "limit"), 0.9 * states, 0.02 * states);
  EXPECT_EQ(all[0].at("sites").at("resident"), 1);
  EXPECT_EQ(all[0].at("share_of_resident"), 1);
  EXPECT_EQ(all[3].at("sites").at("resident"), 0);
}

TEST_F(BenchTrain, ARowThatDoesNotFitSaysSoAndOthersGoOn) {
  probe();
  const Arguments limits = {"--limit", "4KiB", "resident"};
  const Json json = bench(limits);
  ASSERT_EQ(json.at("rows").size(), 2u);
  EXPECT_THAT(json.at("rows")[0].at("does_not_fit").get<std::string>(),
              HasSubstr("Missing on the device"));
  EXPECT_FALSE(json.at("rows")[0].contains("tokens_per_second"));
  EXPECT_GT(json.at("rows")[1].at("tokens_per_second"), 0);

  const Finished text = run_ebb(rows(limits));
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out,
              AllOf(HasSubstr("does not fit: Missing on the device"), HasSubstr("100% resident"),
                    Not(HasSubstr("same weights")), HasSubstr("Row 2 started: ")));
  EXPECT_TRUE(json.at("digests_agree").is_null()) << "one row alone agrees with nobody";
  EXPECT_THAT(text.err, AllOf(HasSubstr("100%"), HasSubstr("row 1")));
}

TEST_F(BenchTrain, FormatsAndCountsHaveResidentRowsOfTheirOwn) {
  probe();
  const Json json = bench(
      {"--limit", "resident", "-90%", "--state-format", "exact", "int8", "--accumulate", "1", "2"});
  const Json& all = json.at("rows");
  ASSERT_EQ(all.size(), 8u);
  std::set<std::string> digests;
  for (std::size_t i = 0; i < all.size(); i += 2) {
    EXPECT_EQ(all[i].at("share_of_resident"), 1);
    EXPECT_EQ(all[i].at("weights_digest"), all[i + 1].at("weights_digest"));
    digests.insert(all[i].at("weights_digest").get<std::string>());
  }
  EXPECT_EQ(digests.size(), 4u);
}

TEST_F(BenchTrain, AgainstHandMadePlans) {
  probe();
  const Json json = bench({"--limit", "-50%", "--against-hand-made"});
  const Json& row = json.at("rows").at(0);
  ASSERT_EQ(row.at("hand_made").size(), 8u);
  double best = 0;
  for (const Json& plan : row.at("hand_made")) {
    EXPECT_EQ(plan.at("weights_digest"), row.at("weights_digest")) << plan.at("name");
    best = std::max(best, plan.at("tokens_per_second").get<double>());
  }
  EXPECT_NEAR(row.at("share_of_best_hand_made").get<double>(),
              row.at("tokens_per_second").get<double>() / best, 1e-9);
}

TEST_F(BenchTrain, BadFlags) {
  const auto refused = [&](const Arguments& flags, const std::vector<std::string>& words) {
    const Finished end = run_ebb(Arguments{"bench", "train", "--device", "cpu"} + flags);
    EXPECT_EQ(end.code, 1) << end.err;
    for (const std::string& word : words) EXPECT_THAT(end.err, HasSubstr(word));
  };
  refused({"--limit", "half"}, {"--limit 'half'", "resident", "-90%", "16GiB"});
  refused({"--only", "0"}, {"--only 0", "1 to 9"});
  refused({"--steps", "0"}, {"--steps 0", "1 to 10000"});
  refused({"--warm-up", "-1"}, {"--warm-up -1", "0 to 10000"});
  refused({"--model", "preset:moon"}, {"preset:moon"});
}

TEST_F(BenchTrain, SpeedsOfAnotherMachineAreNoLight) {
  const std::string file = at("other.json");
  run_ebb({"probe", "--device", "cpu", "--seconds", "0", "--threads", "1", "--out", file});
  const Arguments with = {"--verbose", "--device", "cpu", "--profile", file, "--threads"};
  const auto out = [&](const std::string& threads) {
    return run_ebb(train(at("of " + threads), 1) + with + Arguments{threads}).out;
  };
  EXPECT_THAT(out("1"), HasSubstr("% utilization"));
  EXPECT_THAT(out("2"), AllOf(HasSubstr("(matrix products, measured, on another machine)"),
                              HasSubstr("tokens/s"), Not(HasSubstr("% utilization"))));
}

TEST_F(BenchTrain, StepsAndPlansSayTheirShareOfLight) {
  const Arguments plan = Arguments{"plan", "--model", "preset:tiny", "--device", "cpu"} + batch(1);
  EXPECT_THAT(run_ebb(plan).out,
              AllOf(HasSubstr("Utilization "), HasSubstr("(matrix products, rule of thumb)")));
  const Finished before =
      run_ebb(train(at("before"), 1) + Arguments{"--verbose", "--device", "cpu"});
  EXPECT_THAT(before.out, AllOf(HasSubstr("tokens/s"), HasSubstr("`ebb probe` measures"),
                                Not(HasSubstr("% utilization")), HasSubstr("Started: ")));
  EXPECT_FALSE(Json::parse(read_file(at("before/log.jsonl"))).contains("utilization"));

  probe();
  EXPECT_THAT(run_ebb(plan).out, HasSubstr("(matrix products, measured)"));
  const Finished after = run_ebb(train(at("after"), 1) +
                                 Arguments{"--device", "cpu", "--summary", at("summary.json")});
  EXPECT_THAT(after.out, HasSubstr("% utilization"));
  const Json line = Json::parse(read_file(at("after/log.jsonl")));
  const Json summary = Json::parse(read_file(at("summary.json")));
  EXPECT_EQ(line.at("utilization"), summary.at("utilization"));
  const double flops = summary.at("model_flops_per_step").get<double>();
  const double rate = summary.at("matrix_flops_per_second").at("value").get<double>();
  EXPECT_NEAR(line.at("utilization").get<double>(), flops / line.at("seconds").get<double>() / rate,
              1e-9);
  EXPECT_GT(summary.at("start_seconds").at("initialize"), 0);
}

}  // namespace
}  // namespace ebb::cli
