// What each verb does when all is well.
#include <iterator>
#include <regex>
#include <sstream>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class VerbsTest : public SmallCommands {
 protected:
  Json summary_of(const std::string& name, const Arguments& flags) const {
    trained(name, 3, flags + Arguments{"--summary", at(name + ".json")});
    return Json::parse(read_file(at(name + ".json")));
  }

  // The words of the "Plan: ..." line.
  static Arguments planned_flags(const std::string& text) {
    std::smatch line;
    if (!std::regex_search(text, line, std::regex("Plan: ([^\n]*)"))) return {};
    std::istringstream words(line[1].str());
    return {std::istream_iterator<std::string>(words), {}};
  }
};

TEST_F(VerbsTest, HelpNamesEveryFlag) {
  const Arguments shared = {"--model",      "--device-memory", "--host-memory",
                            "--sequence",   "--micro-batch",   "--accumulate",
                            "--steps",      "--learning-rate", "--schedule",
                            "--warmup",     "--clip",          "--weight-decay",
                            "--states",     "--state-format",  "--offload-fraction",
                            "--recompute",  "--activations",   "--chunk-parameters",
                            "--seed",       "--dtype",         "--device",
                            "--threads",    "--host-fraction", "--use-cpu-offloading",
                            "--tokenizer",  "--packing",       "--loss",
                            "--eval-data",  "--eval-share",    "--eval-batches",
                            "--eval-every", "--optimizer",     "--momentum",
                            "--nesterov",   "--beta1",         "--beta2",
                            "--epsilon",    "--vocabulary"};
  const std::vector<std::pair<std::string, Arguments>> verbs = {
      {"train", shared + Arguments{"--data", "--out", "--save-every", "--keep", "--resume",
                                   "--summary", "--no-verify", "--config", "--quiet", "--verbose"}},
      {"plan", shared},
      {"generate",
       {"--model", "--prompt", "--max-tokens", "--temperature", "--top-k", "--top-p", "--seed",
        "--device-memory", "--host-memory", "--threads", "--dtype", "--tokenizer", "--chat",
        "--system", "--json", "--no-verify"}},
      {"evaluate",
       {"--model",      "--data",          "--sequence",    "--micro-batch", "--batches",
        "--max-tokens", "--device-memory", "--host-memory", "--disk",        "--weights",
        "--vocabulary", "--disk-weights",  "--depth",       "--packing",     "--loss",
        "--dtype",      "--tokenizer",     "--json",        "--trace",       "--no-verify"}},
      {"check",
       {"--model", "--tokenizer", "--data", "--sequence", "--packing", "--loss", "--text-column",
        "--messages-column", "--examples", "--threads"}},
      {"tokenize", {"--model", "--tokenizer", "--data", "--out", "--threads"}},
      {"bench", {"optimizer", "train"}},
      {"inspect", {"path", "preset:NAME", "--json"}}};
  const Finished all = run_ebb({"--help"});
  EXPECT_EQ(all.code, 0);
  for (const auto& [verb, flags] : verbs) {
    EXPECT_THAT(all.out, HasSubstr(verb));
    const Finished help = run_ebb({verb, "--help"});
    EXPECT_EQ(help.code, 0);
    for (const std::string& flag : flags) EXPECT_THAT(help.out, HasSubstr(flag)) << verb;
  }
  EXPECT_THAT(run_ebb({"--version"}).out, HasSubstr("ebb 0."));
}

TEST_F(VerbsTest, TrainLearnsSavesAndKeepsTheLast) {
  const std::string run = at("run");
  const Finished trained = run_ebb(train(run, 6) + Arguments{"--save-every", "2", "--keep", "2"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(trained.err, "");
  for (int step = 1; step <= 6; ++step) {
    EXPECT_THAT(trained.out, HasSubstr(fmt::format("\nstep {}/6  loss", step)));
  }
  EXPECT_THAT(trained.out, AllOf(HasSubstr("tokens/s"), HasSubstr("left"), Not(HasSubstr("\r")),
                                 Not(HasSubstr("\033"))));
  EXPECT_FALSE(std::filesystem::exists(step_folder(run, 2)));
  EXPECT_TRUE(std::filesystem::exists(step_folder(run, 4)));
  EXPECT_TRUE(std::filesystem::exists(step_folder(run, 6)));
}

TEST_F(VerbsTest, TrainSaysInThreeLinesWhatItWillDo) {
  const auto before_the_first_step = [&](const std::string& name, const Arguments& more) {
    const Finished run = run_ebb(train(at(name), 2) + more);
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, "");
    return run.out.substr(0, run.out.find("step 1/"));
  };
  const std::string usual = before_the_first_step("usual", {"--device-memory", "1GiB"});
  EXPECT_EQ(std::count(usual.begin(), usual.end(), '\n'), 3) << usual;
  EXPECT_THAT(usual, AllOf(HasSubstr("What: preset:tiny, "), HasSubstr("2 steps of 32 x 2 tokens"),
                           HasSubstr("\nWhere: device "), HasSubstr(" of 1.00 GiB, host "),
                           HasSubstr("\nHow fast, as predicted on "), HasSubstr(" tokens/s, ")));
  const std::string verbose = before_the_first_step("verbose", {"--verbose"});
  EXPECT_THAT(verbose, AllOf(HasSubstr("What: "), HasSubstr("Plan: --"), HasSubstr("Started: "),
                             HasSubstr("Speeds are")));
  const Finished quiet = run_ebb(train(at("quiet"), 2) + Arguments{"--quiet"});
  EXPECT_EQ(quiet.code, 0);
  EXPECT_EQ(quiet.out + quiet.err, "");
  EXPECT_TRUE(std::filesystem::exists(step_folder(at("quiet"), 2)));
  const Finished both = run_ebb(train(at("both"), 2) + Arguments{"--quiet", "--verbose"});
  EXPECT_EQ(both.code, 1);
}

TEST_F(VerbsTest, SummaryHasEverything) {
  const Json summary = summary_of("run", {"--states", "stream"});
  for (const char* field : {"steps", "tokens", "loss_first", "loss_last", "tokens_per_second",
                            "step_seconds_median", "link_bytes_up", "link_bytes_down"}) {
    ASSERT_TRUE(summary.contains(field)) << field;
    EXPECT_GT(summary[field], 0) << field;
  }
  EXPECT_EQ(summary["steps"], 3);
  EXPECT_EQ(summary["tokens"], 3 * 2 * 32);
  EXPECT_LT(summary["loss_last"], summary["loss_first"]);
  for (const char* field : {"weights_digest", "moments_digest"}) {
    EXPECT_EQ(summary[field].get<std::string>().size(), 32u) << field;
  }
  for (const char* name : {"device", "host", "disk"}) {
    const Json& tier = summary["tiers"][name];
    EXPECT_LE(tier.at("measured_peak"), tier.at("limit")) << name;
    EXPECT_EQ(tier.at("measured_peak"), tier.at("predicted_peak")) << name;
  }
  EXPECT_EQ(summary["numerics_key"]["sequence"], 32);
  EXPECT_THAT(summary["plan"].get<std::string>(), HasSubstr("--states stream"));
}

TEST_F(VerbsTest, KeepingNothingSavesNothing) {
  const std::string run = at("unsaved");
  const Finished trained = run_ebb(train(run, 2) + Arguments{"--save-every", "1", "--keep", "0"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const auto& entry : std::filesystem::directory_iterator(run)) {
    EXPECT_THAT(entry.path().filename().string(),
                testing::AnyOf("log.jsonl", "settings.toml", "plan.json", "step.json"));
  }
}

TEST_F(VerbsTest, PlanPrintsFlagsThatReproduceIt) {
  // From plenty to hardly enough.
  int different = 0;
  std::string before;
  for (const char* limit : {"1GiB", "10MiB", "7MiB", "5600KiB"}) {
    SCOPED_TRACE(limit);
    // What is available may change between two commands.
    const Arguments limits = {"--device-memory", limit, "--host-memory", "1GiB"};
    const Finished plan = run_ebb(Arguments{"plan", "--model", "preset:tiny"} + batch(3) + limits);
    ASSERT_EQ(plan.code, 0) << plan.err;
    const Arguments flags = planned_flags(plan.out);
    ASSERT_FALSE(flags.empty()) << plan.out;
    const Finished again =
        run_ebb(Arguments{"plan", "--model", "preset:tiny"} + batch(3) + limits + flags);
    // Flags that are fixed leave other things to ask for.
    const auto plan_of = [](const std::string& out) {
      return out.substr(0, out.find("Alternatives"));
    };
    EXPECT_EQ(plan_of(again.out), plan_of(plan.out));
    const Json chosen = summary_of(std::string("auto") + limit, limits);
    const Json given = summary_of(std::string("flags") + limit, limits + flags);
    EXPECT_EQ(given["plan"], chosen["plan"]);
    // Of the pages of an arena the system may have taken some back.
    const auto counted = [](Json summary) {
      for (auto& [name, tier] : summary["tiers"].items()) tier.erase("arena_touched");
      return summary["tiers"];
    };
    EXPECT_EQ(counted(given), counted(chosen));
    EXPECT_EQ(given["weights_digest"], chosen["weights_digest"]);
    different += chosen["plan"] != before;
    before = chosen["plan"];
  }
  EXPECT_GT(different, 1) << "the limits made no difference";
}

TEST_F(VerbsTest, PlanTakesATrainCommand) {
  Arguments arguments = train(at("run"), 2);
  arguments[0] = "plan";
  const Finished plan = run_ebb(arguments);
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, AllOf(HasSubstr("needed"), HasSubstr("predicted"), HasSubstr("lane")));
  EXPECT_FALSE(std::filesystem::exists(at("run")));
}

TEST_F(VerbsTest, CpuOffloadingLeavesNoStateOnTheDevice) {
  const Json resident = summary_of("resident", {"--states", "resident"});
  const Json offloaded = summary_of("offloaded", {"--use-cpu-offloading"});
  EXPECT_LT(offloaded["tiers"]["device"]["measured_peak"],
            resident["tiers"]["device"]["measured_peak"]);
  EXPECT_GT(offloaded["tiers"]["host"]["measured_peak"],
            resident["tiers"]["host"]["measured_peak"]);
  // Whichever site was chosen, every weight or gradient crosses the link in every step.
  const std::int64_t parameters = offloaded["parameters"];
  EXPECT_GE(offloaded["link_bytes_up"], 3 * 2 * parameters);
  EXPECT_GE(offloaded["link_bytes_down"], 3 * 2 * parameters);
  EXPECT_LT(resident["link_bytes_up"], parameters);
  EXPECT_EQ(offloaded["weights_digest"], resident["weights_digest"]);
  EXPECT_EQ(offloaded["moments_digest"], resident["moments_digest"]);
}

TEST_F(VerbsTest, ResumeWithoutACheckpointStartsFromTheBeginning) {
  std::filesystem::create_directory(at("empty"));
  for (const char* name : {"missing", "empty"}) {
    const Finished run = run_ebb(train(at(name), 2) + Arguments{"--resume"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, AllOf(HasSubstr("no checkpoint in"), HasSubstr(at(name)),
                               HasSubstr("starting from the beginning"), HasSubstr("step 1/2")));
  }
}

TEST_F(VerbsTest, ResumeOfAFinishedRunTrainsNothing) {
  const Json whole = summary_of("run", {});
  const Json again = summary_of("run", {"--resume"});
  EXPECT_EQ(again["steps_this_run"], 0);
  EXPECT_EQ(again["weights_digest"], whole["weights_digest"]);
  EXPECT_EQ(again["moments_digest"], whole["moments_digest"]);
}

TEST_F(VerbsTest, ResumeConvertsTheStatesFormatAndNothingElse) {
  const Json whole = summary_of("run", {"--state-format", "int8"});
  const Json exact = summary_of("run", {"--resume", "--state-format", "exact"});
  EXPECT_EQ(exact["numerics_key"]["state_format"], "exact");
  EXPECT_EQ(exact["weights_digest"], whole["weights_digest"]);
  EXPECT_EQ(exact["moments_digest"], whole["moments_digest"]) << "int8 fits in exact";
  EXPECT_LT(whole["tiers"]["device"]["predicted_peak"], exact["tiers"]["device"]["predicted_peak"]);
  Arguments other = train(at("run"), 3) + Arguments{"--resume", "--state-format", "bf16"};
  const Finished told = run_ebb(other);
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.out, HasSubstr("states are \"int8-steps\": they are converted to \"bf16\""));
  other = train(at("run"), 3) + Arguments{"--resume", "--optimizer", "lion"};
  const Finished refused = run_ebb(other);
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("optimizer.rule"), HasSubstr("lion")));
}

TEST_F(VerbsTest, GenerateRepeatsItself) {
  const std::string run = trained("run", 3);
  const auto text = [&](const Arguments& flags) {
    const Finished end = run_ebb(
        Arguments{"generate", "--model", run, "--prompt", "the tide", "--max-tokens", "40"} +
        flags);
    EXPECT_EQ(end.code, 0) << end.err;
    EXPECT_TRUE(end.out.starts_with("the tide")) << end.out;
    EXPECT_THAT(end.err, AllOf(HasSubstr("tokens/s"), HasSubstr("device")));
    return end.out;
  };
  EXPECT_EQ(text({"--seed", "1"}), text({"--seed", "1", "--threads", "1"}));
  EXPECT_NE(text({"--seed", "1"}), text({"--seed", "2"}));
  const std::string likeliest = text({"--temperature", "0", "--seed", "1"});
  EXPECT_EQ(text({"--temperature", "0", "--seed", "2"}), likeliest);
  EXPECT_EQ(text({"--top-k", "1", "--seed", "3"}), likeliest);
  EXPECT_EQ(text({"--top-p", "1e-9", "--seed", "4"}), likeliest);
}

TEST_F(VerbsTest, GenerateShowsTheTextAsItComes) {
  const std::string run = trained("run", 1);
  Process process({"generate", "--model", run, "--prompt", "tide", "--max-tokens", "4000"});
  // Something is there long before the 4000th token; the rest is not waited for.
  ASSERT_TRUE(process.run_until([&] { return process.out().size() > 20; }));
  EXPECT_EQ(process.kill().signal, SIGKILL);
}

TEST_F(VerbsTest, GenerateCutsTheTextToThePositions) {
  const std::string run = trained("run", 1);
  // Of 4096 positions the prompt takes all but four.
  write_file(at("prompt"), std::string(4092, 'a'));
  const Finished end =
      run_ebb({"generate", "--model", run, "--prompt-file", at("prompt"), "--max-tokens",
               "9223372036854775807", "--json", "--temperature", "0"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_LE(Json::parse(end.out)["ids"].size(), 4u);
  EXPECT_THAT(end.err, AllOf(HasSubstr("--max-tokens 9223372036854775807 is cut to 4: "),
                             HasSubstr("4096 positions")));
}

TEST_F(VerbsTest, GenerateAsJson) {
  const std::string run = trained("run", 3);
  const Finished end = run_ebb({"generate", "--model", run, "--prompt", "tide", "--max-tokens",
                                "12", "--temperature", "0", "--json"});
  ASSERT_EQ(end.code, 0) << end.err;
  const Json json = Json::parse(end.out);
  EXPECT_EQ(json["prompt_ids"], Json({'t', 'i', 'd', 'e'}));
  EXPECT_EQ(json["ids"].size(), 12u);
  EXPECT_EQ(json["ended_by"], "length");
  EXPECT_EQ(json["temperature"], 0);
  EXPECT_EQ(json["stop_ids"], Json({256}));
  const Finished text = run_ebb(
      {"generate", "--model", run, "--prompt", "tide", "--max-tokens", "12", "--temperature", "0"});
  EXPECT_EQ(text.out, "tide" + json["text"].get<std::string>() + "\n");
  EXPECT_THAT(text.err, AllOf(HasSubstr("temperature 0 (as given)"), HasSubstr("ends at 256")));
}

TEST_F(VerbsTest, GenerateSaysThatAPresetsWeightsAreRandom) {
  const auto generated = [](const std::string& model, const Arguments& more = {}) {
    return run_ebb(Arguments{"generate", "--model", model, "--prompt", "a", "--max-tokens", "2"} +
                   more);
  };
  EXPECT_THAT(generated("preset:tiny").err, HasSubstr("weights of preset:tiny are random"));
  EXPECT_EQ(Json::parse(generated("preset:tiny", {"--json"}).out)["random_weights"], true);
  const std::string run = trained("run", 1);
  EXPECT_THAT(generated(run).err, testing::Not(HasSubstr("random")));
  EXPECT_EQ(Json::parse(generated(run, {"--json"}).out)["random_weights"], false);
}

}  // namespace
}  // namespace ebb::cli
