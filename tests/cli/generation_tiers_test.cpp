// ebb generate under limits from too small to roomy, with weights and cache on any tier: the same
// text, or a refusal that says what is missing.
#include "cli/small_commands.h"
#include "ebb/units.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GenerationTiers : public SmallCommands {
 protected:
  // One slice length and one number of threads, as both may change roundings.
  Finished generated(const Arguments& more) const {
    return run_ebb(Arguments{"generate", "--model", "preset:small", "--device", "cpu", "--threads",
                             "2", "--prompt", "the tide comes in and", "--max-tokens", "12",
                             "--temperature", "0", "--slice", "16"} +
                   more);
  }
};

TEST_F(GenerationTiers, TheSameTextUnderEveryLimitThatFits) {
  const Finished roomy = generated({"--device-memory", "1GiB"});
  ASSERT_EQ(roomy.code, 0) << roomy.err;
  EXPECT_THAT(roomy.err, HasSubstr("plan: --weights resident"));
  int fitting = 0, streaming = 0, refused = 0;
  for (Bytes limit = kMiB; limit <= 33 * kMiB; limit += 4 * kMiB) {
    const Finished end = generated({"--device-memory", std::to_string(limit)});
    if (end.code == 2) {
      ++refused;
      EXPECT_EQ(fitting, 0) << "what fits in less fits in more";
      EXPECT_THAT(end.err, AllOf(HasSubstr("Missing on the device"), HasSubstr("Closest plan: ")));
      continue;
    }
    ASSERT_EQ(end.code, 0) << limit << end.err;
    EXPECT_EQ(end.out, roomy.out) << limit;
    ++fitting;
    if (end.err.find("--weights resident") == std::string::npos) ++streaming;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(fitting, streaming);
  EXPECT_GT(streaming, 0);
}

// The flags that a run prints are its placement.
TEST_F(GenerationTiers, PrintedFlagsReproduceThePlan) {
  const auto plan_of = [](const Finished& end) {
    EXPECT_EQ(end.code, 0) << end.err;
    const std::size_t at = end.err.find("plan: ") + 6;
    return end.err.substr(at, end.err.find('\n', at) - at);
  };
  const std::string flags = plan_of(generated({"--device-memory", "12MiB"}));
  EXPECT_THAT(flags, HasSubstr("--weights "));
  Arguments again{"--device-memory", "1GiB"};
  std::istringstream words(flags);
  for (std::string flag, value; words >> flag >> value;) {
    if (flag != "--slice") again.insert(again.end(), {flag, value});  // as always
  }
  EXPECT_EQ(plan_of(generated(again)), flags);
}

TEST_F(GenerationTiers, FromADisk) {
  const Finished roomy = generated({});
  const std::string disk = folder.path().string() + ":256MiB";
  const Finished end = generated({"--disk", disk, "--weights", "stream", "--disk-weights", "100",
                                  "--cache", "host", "--cpu-blocks", "1"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(end.out, roomy.out);
  EXPECT_THAT(end.err, HasSubstr("--disk-weights"));
}

TEST_F(GenerationTiers, FlagsThatSayNothing) {
  const auto refusal = [&](const Arguments& more) { return generated(more).err; };
  EXPECT_THAT(refusal({"--weights", "half"}),
              AllOf(HasSubstr("--weights 'half'"), HasSubstr("resident")));
  EXPECT_THAT(refusal({"--cache", "moon"}), AllOf(HasSubstr("--cache 'moon'"), HasSubstr("mixed")));
  EXPECT_THAT(refusal({"--depth", "1"}), HasSubstr("--depth 1: expected at least 2"));
  EXPECT_THAT(refusal({"--disk-weights", "2"}), HasSubstr("there is no disk"));
  EXPECT_THAT(refusal({"--disk", "/nowhere/at/all"}), HasSubstr("there is no such folder"));
  EXPECT_THAT(run_ebb({"generate", "--model", "preset:tiny", "--prompt", "a", "--slice", "0"}).err,
              HasSubstr("--slice 0: expected at least 1"));
}

}  // namespace
}  // namespace ebb::cli
