// Plans with what is known of machines: of this one, and of those that are not here.
#include <gmock/gmock.h>

#include "cli/small_commands.h"
#include "plan/machines.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PlanTest : public SmallCommands {
 protected:
  static Finished plan(const Arguments& more) { return run_ebb(Arguments{"plan"} + more); }
};

TEST_F(PlanTest, AMachineThatIsNotHere) {
  const Finished end =
      plan({"--model", "preset:llama-3.1-8b", "--machine", "rtx-4090", "--host-memory", "128GiB"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out,
              AllOf(HasSubstr("8.03 B parameters"), HasSubstr("22.5 GiB"), HasSubstr("128 GiB"),
                    HasSubstr("tokens/s) on rtx-4090"), HasSubstr("matrix products"),
                    HasSubstr("0.75 of data sheet"), HasSubstr("Workspaces are estimates")));
}

TEST_F(PlanTest, SequencesBeyondTheModelsPositions) {
  const Arguments tiny = {"--model", "preset:tiny", "--device", "cpu", "--micro-batch", "1"};
  EXPECT_THAT(plan(tiny + Arguments{"--sequence", "4096"}).out, Not(HasSubstr("positions")));
  const Finished longer = plan(tiny + Arguments{"--sequence", "5000"});
  EXPECT_EQ(longer.code, 0) << longer.err;
  EXPECT_THAT(longer.out, AllOf(HasSubstr("--sequence 5000"), HasSubstr("made for 4096 positions"),
                                HasSubstr("tokens/s")));
  const Finished elsewhere = plan(
      {"--model", "preset:tiny", "--machine", "h200", "--micro-batch", "1", "--sequence", "5000"});
  EXPECT_THAT(elsewhere.out, HasSubstr("made for 4096 positions")) << elsewhere.err;
  const Finished trained =
      run_ebb({"train", "--model", "preset:tiny", "--data", data, "--out", at("run"), "--steps",
               "1", "--micro-batch", "1", "--sequence", "5000"});
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.out + trained.err, HasSubstr("made for 4096 positions"));
}

TEST_F(PlanTest, EveryMachineThatShips) {
  for (const std::string_view name : plan::machine_names()) {
    const Finished end = plan({"--model", "preset:qwen2.5-0.5b", "--machine", std::string(name)});
    EXPECT_EQ(end.code, 0) << name << end.err;
    EXPECT_THAT(end.out, HasSubstr(fmt::format("Speeds of {}", name)));
  }
}

TEST_F(PlanTest, WhatDoesNotFitElsewhere) {
  const Finished end = plan({"--model", "preset:llama-3.1-70b", "--machine", "rtx-3090"});
  EXPECT_EQ(end.code, 2) << end.out;
  EXPECT_THAT(end.err, HasSubstr("Missing on the device"));
}

TEST_F(PlanTest, OfGeneration) {
  const Arguments tiny = {"generate", "--model", "preset:tiny", "--device", "cpu"};
  const Finished end =
      plan(tiny + Arguments{"--prompt-tokens", "200", "--max-tokens", "50", "--slice", "64"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("a prompt of 200 tokens and up to 50 more"),
                             HasSubstr("key-value cache"), HasSubstr("needed"), HasSubstr("limit"),
                             HasSubstr("4 slices"), HasSubstr("tokens/s"), HasSubstr("bound by"),
                             HasSubstr("Speeds are rules of thumb")));
  // What it says is what generation takes.
  const Finished refused =
      plan(tiny + Arguments{"--device-memory", "3MiB", "--weights", "resident"});
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, AllOf(HasSubstr("Missing on the device"), HasSubstr("bytes)"),
                                 HasSubstr("--weights auto"), HasSubstr("What would help")));
  const Finished same = run_ebb({"generate", "--model", "preset:tiny", "--device", "cpu",
                                 "--prompt", "a", "--device-memory", "1MiB"});
  EXPECT_EQ(same.code, 2) << same.out;
  EXPECT_THAT(same.err, AllOf(HasSubstr("Missing on the device"), HasSubstr("key-value cache")));
  EXPECT_THAT(plan(tiny + Arguments{"--max-tokens", "0"}).err, HasSubstr("--max-tokens 0"));
  // What was asked for is cut, and told; so is what is usual.
  const Arguments long_prompt = {"--prompt-tokens", "4000"};
  EXPECT_THAT(plan(tiny + long_prompt + Arguments{"--max-tokens", "200"}).out,
              AllOf(HasSubstr("--max-tokens 200 is cut to 96"), HasSubstr("4096 positions"),
                    HasSubstr("up to 96 more")));
  EXPECT_THAT(plan(tiny + long_prompt).out,
              AllOf(HasSubstr("At most 96 tokens are written"), HasSubstr("up to 96 more")));
  EXPECT_THAT(plan({"generate"}).err, HasSubstr("--model"));
  EXPECT_THAT(plan({}).err, HasSubstr("--model"));
}

TEST_F(PlanTest, OfGenerationOnAMachineThatIsNotHere) {
  const Arguments large = {"generate", "--model", "preset:qwen2.5-7b", "--machine"};
  const Finished end = plan(large + Arguments{"h200", "--trace", at("trace.json")});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("7.62 B parameters"), HasSubstr("on h200"),
                             HasSubstr("weights and cache, read"), HasSubstr("Speeds of h200"),
                             HasSubstr("Workspaces are estimates")));
  EXPECT_THAT(read_file(at("trace.json")), HasSubstr("decode block 27"));
  const Finished refused =
      plan(large + Arguments{"rtx-4090", "--dtype", "fp32", "--weights", "resident"});
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("Missing on the device"), HasSubstr("--dtype bf16")));
  EXPECT_THAT(plan(large + Arguments{"h200", "--device", "cpu"}).err, HasSubstr("--device cpu"));
  const Finished batch = plan(large + Arguments{"h200", "--sequences", "8"});
  ASSERT_EQ(batch.code, 0) << batch.err;
  EXPECT_THAT(batch.out, AllOf(HasSubstr("8 sequences at once"), HasSubstr("tokens/s together")));
  // Fewer would fit.
  const Finished many = plan(large + Arguments{"rtx-4090", "--weights", "resident", "--cache",
                                               "device", "--sequences", "256"});
  EXPECT_EQ(many.code, 2) << many.out;
  EXPECT_THAT(many.err, AllOf(HasSubstr("Missing on the device"), HasSubstr("--sequences ")));
  // What a card cannot hold lives in host memory: prompts stream it, the CPU computes tokens.
  const Finished split = plan(large + Arguments{"rtx-4090", "--device-memory", "8GiB"});
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_THAT(split.out, AllOf(HasSubstr("Plan: --weights "), HasSubstr("--cpu-blocks "),
                               HasSubstr("a prompt computed by the device, a token by the CPU"),
                               HasSubstr("blocks by the CPU")));
}

// A vocabulary of 151,936 in a quarter of what its table and its gradient take.
TEST_F(PlanTest, CutsAVocabularyThatDoesNotFit) {
  // All else is away: what there is to search for takes minutes under sanitizers.
  const Arguments tight = {"--model",
                           "preset:qwen2.5-0.5b",
                           "--device",
                           "cpu",
                           "--threads",
                           "2",
                           "--sequence",
                           "64",
                           "--micro-batch",
                           "1",
                           "--host-memory",
                           "16GiB",
                           "--states",
                           "stream",
                           "--offload-fraction",
                           "1",
                           "--weights",
                           "stream",
                           "--gradient-sums",
                           "host",
                           "--recompute",
                           "block",
                           "--activations",
                           "host",
                           "--chunk-parameters",
                           "4194304",
                           "--device-memory"};
  const Finished cut = plan(tight + Arguments{"256MiB"});
  ASSERT_EQ(cut.code, 0) << cut.err;
  EXPECT_THAT(cut.out, HasSubstr("--vocabulary cut"));
  const Finished refused = plan(tight + Arguments{"256MiB", "--vocabulary", "whole"});
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("Missing on the device"),
                                 HasSubstr("let embedding and head be cut by vocabulary"),
                                 HasSubstr("--vocabulary cut")));
  const Finished whole = plan(tight + Arguments{"1200MiB"});
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("--vocabulary whole"));
}

TEST_F(PlanTest, AProfileFromAFile) {
  plan::Profile profile = plan::machine("a100-80gb");
  profile.name = "a machine of mine";
  profile.device_memory = 40 * kGiB;
  write_file(at("mine.json"), plan::to_json(profile).dump());
  const Finished end = plan({"--model", "preset:tiny", "--machine", at("mine.json")});
  EXPECT_THAT(end.out, AllOf(HasSubstr("on a machine of mine"), HasSubstr("40.0 GiB"))) << end.err;
}

TEST_F(PlanTest, WithWhatTheProbeKept) {
  const Arguments tiny = {"--model", "preset:tiny", "--device", "cpu"};
  EXPECT_THAT(plan(tiny).out,
              AllOf(HasSubstr("Speeds are rules of thumb"), HasSubstr("ebb probe")));
  const Finished probe = run_ebb({"probe", "--device", "cpu", "--seconds", "0", "--json"});
  ASSERT_EQ(probe.code, 0) << probe.err;
  EXPECT_THAT(probe.err, AllOf(HasSubstr("matrix products"), HasSubstr("100%")));
  const Json profile = Json::parse(probe.out);
  EXPECT_EQ(profile.at("format"), "ebb machine profile");
  EXPECT_EQ(Json::parse(read_file(at("cache/ebb/profile-cpu.json"))), profile);

  const Finished planned = plan(tiny);
  EXPECT_THAT(planned.out,
              AllOf(HasSubstr("Speeds were measured: " + at("cache/ebb/profile-cpu.json")),
                    HasSubstr(profile.at("name").get<std::string>())));
  const Finished trained = run_ebb(train(at("run"), 1) + Arguments{"--device", "cpu", "--verbose"});
  EXPECT_THAT(trained.out + trained.err, HasSubstr("Speeds were measured"));
  const std::string more = std::to_string(profile.at("cores").get<int>() + 1);
  EXPECT_THAT(plan(tiny + Arguments{"--threads", more}).out,
              AllOf(HasSubstr("stale"), HasSubstr("and is " + more), HasSubstr("ebb probe")));
  EXPECT_THAT(plan({"--model", "preset:tiny", "--machine", at("cache/ebb/profile-cpu.json")}).out,
              HasSubstr("Workspaces are estimates"));
}

TEST_F(PlanTest, PlacementBySpeedsNeverChangesTheNumbers) {
  const auto digest = [&](const std::string& name, const Arguments& more) {
    const std::string summary = at(name + "-summary.json");
    trained(name, 3,
            Arguments{"--device", "cpu", "--device-memory", "7MiB", "--summary", summary} + more);
    const Json json = Json::parse(read_file(summary));
    return std::pair(json.at("plan").get<std::string>(),
                     json.at("weights_digest").dump() + json.at("moments_digest").dump());
  };
  // Two machines on paper: a link that costs nothing, and one that is hardly there.
  plan::Profile fast = plan::rough_cpu_profile(2), slow = fast;
  fast.up_bytes_per_second = fast.down_bytes_per_second = 1e12;
  fast.host_bytes_per_second = 1e6;
  slow.up_bytes_per_second = slow.down_bytes_per_second = 1e7;
  slow.host_bytes_per_second = 1e12;
  write_file(at("fast.json"), plan::to_json(fast).dump());
  write_file(at("slow.json"), plan::to_json(slow).dump());
  const auto [fast_plan, fast_digest] = digest("fast", {"--profile", at("fast.json")});
  const auto [slow_plan, slow_digest] = digest("slow", {"--profile", at("slow.json")});
  EXPECT_NE(fast_plan, slow_plan) << "the profile is not used";
  EXPECT_EQ(fast_digest, slow_digest);
}

TEST_F(PlanTest, BadProbes) {
  const auto refusal = [&](const Arguments& more) {
    const Finished end = run_ebb(Arguments{"probe", "--device", "cpu"} + more);
    EXPECT_EQ(end.code, 1) << end.out;
    return end.err;
  };
  EXPECT_THAT(refusal({"--seconds", "-1"}), HasSubstr("expected 0 to 3600"));
  EXPECT_THAT(refusal({"--threads", "-1"}), HasSubstr("--threads -1"));
  EXPECT_THAT(refusal({"--seconds", "0", "--out", data + "/x.json"}), HasSubstr(data));
}

TEST_F(PlanTest, BadMachines) {
  const auto refusal = [&](const Arguments& more) {
    const Finished end = plan(Arguments{"--model", "preset:tiny"} + more);
    EXPECT_EQ(end.code, 1) << end.out;
    return end.err;
  };
  EXPECT_THAT(refusal({"--machine", "rtx-9999"}), AllOf(HasSubstr("rtx-9999"), HasSubstr("h200")));
  EXPECT_THAT(refusal({"--machine", data}), HasSubstr(data));
  EXPECT_THAT(refusal({"--machine", "h100", "--device", "cpu"}), HasSubstr("--device cpu"));
  EXPECT_THAT(refusal({"--machine", "h100", "--profile", data}), HasSubstr("--profile"));
}

}  // namespace
}  // namespace ebb::cli
