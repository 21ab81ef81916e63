// --trace, of runs and of plans.
#include <csignal>
#include <set>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class TraceTest : public SmallCommands {
 protected:
  struct Shown {
    std::set<std::string> spans;
    std::set<std::string> counters;
    std::set<std::string> tracks;
    std::set<std::int64_t> steps;
  };

  static Shown shown(const std::string& path) {
    Shown shown;
    const Json json = Json::parse(read_file(path));
    for (const Json& event : json.at("traceEvents")) {
      const std::string name = event.at("name");
      if (event.at("ph") == "C") shown.counters.insert(name);
      if (name == "thread_name") shown.tracks.insert(event.at("args").at("name"));
      if (event.at("ph") != "X") continue;
      const std::int64_t step = event.at("args").at("step");
      shown.steps.insert(step);
      if (name != fmt::format("step {}", step)) shown.spans.insert(name);
    }
    return shown;
  }

  Json summary(const std::string& name, const Arguments& more) {
    trained(name, 6, Arguments{"--device", "cpu", "--summary", at(name + ".json")} + more);
    return Json::parse(read_file(at(name + ".json")));
  }
};

TEST_F(TraceTest, ARunAndItsPlanShowTheSameTasks) {
  const Arguments placed = {"--states", "stream", "--host-fraction", "0.3", "--accumulate", "2"};
  const Json plain = summary("plain", placed);
  const Json traced = summary(
      "traced", placed + Arguments{"--trace", at("traced/trace.json"), "--trace-steps", "2"});
  EXPECT_EQ(traced.at("weights_digest"), plain.at("weights_digest"));
  EXPECT_EQ(traced.at("moments_digest"), plain.at("moments_digest"));

  const Finished plan = run_ebb(Arguments{"plan", "--model", "preset:tiny", "--device", "cpu",
                                          "--trace", at("plans/new/trace.json")} +
                                batch(6) + placed);
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Shown measured = shown(at("traced/trace.json"));
  const Shown predicted = shown(at("plans/new/trace.json"));
  EXPECT_EQ(measured.spans, predicted.spans);
  EXPECT_EQ(measured.counters, predicted.counters);
  EXPECT_EQ(measured.tracks, (std::set<std::string>{"steps", "compute", "up", "down", "host",
                                                    "express up", "express down"}));
  EXPECT_EQ(measured.tracks, predicted.tracks);
  EXPECT_EQ(measured.steps, (std::set<std::int64_t>{5, 6}));
  EXPECT_THAT(measured.spans,
              AllOf(Contains("forward block 1"), Contains("chunk 0 state to device")));
  EXPECT_THAT(measured.counters, Contains("device memory in use"));
}

TEST_F(TraceTest, OfGenerationAndItsPlan) {
  const Arguments tiny = {"--model", "preset:tiny", "--device", "cpu", "--max-tokens", "12"};
  const Finished end = run_ebb(Arguments{"generate"} + tiny +
                               Arguments{"--prompt", "abcd", "--trace", at("measured.json")});
  ASSERT_EQ(end.code, 0) << end.err;
  const Finished plan = run_ebb(Arguments{"plan", "generate"} + tiny +
                                Arguments{"--prompt-tokens", "4", "--trace", at("predicted.json")});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const auto of = [&](const std::string& name) {
    Shown all = shown(at(name));
    std::erase_if(all.spans, [](const std::string& span) {
      return span.starts_with("token ") || span.starts_with("slice ");
    });
    return all;
  };
  const Shown measured = of("measured.json"), predicted = of("predicted.json");
  EXPECT_EQ(measured.spans, predicted.spans);
  EXPECT_EQ(measured.counters, predicted.counters);
  EXPECT_THAT(measured.spans, AllOf(Contains("decode block 1"), Contains("logits to host")));
  EXPECT_THAT(measured.tracks, AllOf(Contains("slices"), Contains("tokens"), Contains("compute")));
}

TEST_F(TraceTest, OfAMachineThatIsNotHere) {
  const Finished plan = run_ebb({"plan", "--model", "preset:qwen2.5-0.5b", "--machine", "rtx-4090",
                                 "--device-memory", "8GiB", "--trace", at("trace.json")});
  ASSERT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(shown(at("trace.json")).spans, Contains("backward block 23"));
}

TEST_F(TraceTest, OfARunThatWasInterruptedOrFailed) {
  Process process(train(at("run"), 100000) + Arguments{"--trace", at("trace.json")});
  ASSERT_TRUE(
      process.run_until([&] { return process.out().find("step 3/") != std::string::npos; }));
  process.send(SIGINT);
  const Finished end = process.wait();
  EXPECT_EQ(end.code, 130) << end.err;
  EXPECT_THAT(end.out, HasSubstr("Wrote " + at("trace.json")));
  EXPECT_THAT(shown(at("trace.json")).spans, Contains("norm"));

  // Weights that grow beyond all bounds.
  const Finished failed = run_ebb(train(at("wild"), 50) +
                                  Arguments{"--learning-rate", "1e38", "--trace", at("wild.json")});
  EXPECT_EQ(failed.code, 1) << failed.out;
  EXPECT_THAT(failed.err, HasSubstr("not finite"));
  EXPECT_THAT(shown(at("wild.json")).spans, Contains("norm"));
}

TEST_F(TraceTest, RefusesWhatCannotBeWrittenBeforeItTrains) {
  const auto refusal = [&](const Arguments& more) {
    const Finished end = run_ebb(train(at("run"), 2) + more);
    EXPECT_EQ(end.code, 1) << end.out;
    EXPECT_EQ(end.out.find("step 1/"), std::string::npos) << end.out;
    return end.err;
  };
  EXPECT_THAT(refusal({"--trace", data + "/trace.json"}),
              AllOf(HasSubstr("--trace"), HasSubstr(data)));
  EXPECT_THAT(refusal({"--trace", folder.path().string()}), HasSubstr("this is a folder"));
  EXPECT_THAT(refusal({"--trace", at("t.json"), "--trace-steps", "0"}),
              HasSubstr("--trace-steps 0: expected"));
  EXPECT_FALSE(std::filesystem::exists(at("t.json.partial")));
}

}  // namespace
}  // namespace ebb::cli
