// `ebb plan` for machines that are not here.
#include <gmock/gmock.h>

#include "cli/small_commands.h"
#include "plan/machines.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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

TEST_F(PlanTest, AProfileFromAFile) {
  plan::Profile profile = plan::machine("a100-80gb");
  profile.name = "a machine of mine";
  profile.device_memory = 40 * kGiB;
  write_file(at("mine.json"), plan::to_json(profile).dump());
  const Finished end = plan({"--model", "preset:tiny", "--machine", at("mine.json")});
  EXPECT_THAT(end.out, AllOf(HasSubstr("on a machine of mine"), HasSubstr("40.0 GiB"))) << end.err;
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
}

}  // namespace
}  // namespace ebb::cli
