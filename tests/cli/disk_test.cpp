// A disk from the command line: it trains what memory cannot hold, to the same bits, and says what
// it does to the drive; what cannot be is refused before anything is written.
#include <filesystem>
#include <iterator>
#include <sstream>

#include "cli/small_commands.h"
#include "ebb/units.h"
#include "heap_watch.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class DiskCommands : public SmallCommands {
 protected:
  DiskCommands() { std::filesystem::create_directories(scratch); }
  Json summary(const std::string& name) const { return Json::parse(read_file(at(name + ".json"))); }

  std::string scratch = at("scratch");
};

// Limits that only a disk makes possible: the process keeps them, and the bits are resident's.
TEST_F(DiskCommands, TrainWhatMemoryCannotHold) {
  const Arguments work = {"train",
                          "--model",
                          "preset:small",
                          "--device",
                          "cpu",
                          "--data",
                          data,
                          "--sequence",
                          "32",
                          "--micro-batch",
                          "1",
                          "--steps",
                          "3",
                          "--keep",
                          "0",
                          "--threads",
                          "2",
                          "--accumulate",
                          "3"};
  const Finished plain = run_ebb(work + Arguments{"--out", at("plain"), "--states", "resident",
                                                  "--summary", at("plain.json")});
  ASSERT_EQ(plain.code, 0) << plain.err;
  const Bytes device = 48 * kMiB, host = 40 * kMiB;
  const Arguments tight = work + Arguments{"--device-memory", std::to_string(device),
                                           "--host-memory", std::to_string(host)};
  const Finished refused = run_ebb(tight + Arguments{"--out", at("refused")});
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("--disk PATH"));
  const Finished end = run_ebb(tight + Arguments{"--out", at("disk"), "--summary", at("disk.json"),
                                                 "--disk", scratch, "--disk-endurance", "600TB"});
  ASSERT_EQ(end.code, 0) << end.err;
  const Json found = summary("disk");
  EXPECT_EQ(found["weights_digest"], summary("plain")["weights_digest"]);
  EXPECT_EQ(found["moments_digest"], summary("plain")["moments_digest"]);
  for (const char* tier : {"device", "host", "disk"}) {
    const Json& row = found["tiers"][tier];
    EXPECT_EQ(row["predicted_peak"], row["measured_peak"]) << tier;
    EXPECT_LE(row["measured_peak"].get<Bytes>(), row["limit"].get<Bytes>()) << tier;
  }
  EXPECT_GT(found["tiers"]["disk"]["measured_peak"].get<Bytes>(), 0);
  EXPECT_GT(found["disk_bytes_written"].get<Bytes>(), 3 * found["parameters"].get<Bytes>());
  EXPECT_THAT(end.out + end.err, AllOf(HasSubstr("from the disk and writes"),
                                       HasSubstr("of the 600 TB that its drives")));
  EXPECT_TRUE(std::filesystem::is_empty(scratch));
  if (!HeapWatch::works()) return;  // sanitizers take memory of their own
  const Json process = found["process"];
  constexpr Bytes outside = 64 * kMiB;
  EXPECT_LE(process["resident_peak"].get<Bytes>() - process["resident_at_start"].get<Bytes>(),
            device + host + outside)
      << process.dump();
}

// The plan's own flags make the plan again.
TEST_F(DiskCommands, PlansReproduceThemselves) {
  const Arguments work = {"plan",
                          "--model",
                          "preset:small",
                          "--device",
                          "cpu",
                          "--threads",
                          "2",
                          "--sequence",
                          "32",
                          "--micro-batch",
                          "1",
                          "--device-memory",
                          "48MiB",
                          "--host-memory",
                          "40MiB",
                          "--disk",
                          scratch + ":2GiB",
                          "--accumulate",
                          "3"};
  const Finished first = run_ebb(work);
  ASSERT_EQ(first.code, 0) << first.err;
  const auto plan_of = [](const std::string& text) {
    const std::size_t start = text.find("Plan: ") + 6;
    return text.substr(start, text.find('\n', start) - start);
  };
  std::istringstream words(plan_of(first.out));
  const Arguments flags{std::istream_iterator<std::string>(words), {}};
  EXPECT_THAT(plan_of(first.out), HasSubstr("--disk-fraction"));
  const Finished again = run_ebb(work + flags);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(plan_of(again.out), plan_of(first.out));
}

TEST_F(DiskCommands, RefuseWhatCannotBe) {
  const auto refused = [&](const Arguments& more) {
    const Finished end = run_ebb(train(at("run"), 2) + more);
    EXPECT_EQ(end.code, 1) << end.out << end.err;
    EXPECT_FALSE(std::filesystem::exists(step_folder(at("run"), 2)));
    return end.err;
  };
  EXPECT_THAT(refused({"--disk", at("missing")}), HasSubstr("no such folder"));
  EXPECT_THAT(refused({"--disk", data}), HasSubstr("no such folder"));
  EXPECT_THAT(refused({"--disk", scratch + ":999999TB"}), HasSubstr("has"));
  EXPECT_THAT(refused({"--disk", scratch + ":lots"}), HasSubstr("--disk"));
  EXPECT_THAT(refused({"--disk-fraction", "0.5"}), HasSubstr("--disk PATH"));
  EXPECT_THAT(refused({"--activations", "disk"}), HasSubstr("--disk PATH"));
  EXPECT_THAT(refused({"--disk", scratch, "--disk-fraction", "1.5"}), HasSubstr("between 0 and 1"));
  EXPECT_THAT(refused({"--disk", scratch, "--disk-weights", "-1"}), HasSubstr("--disk-weights"));
  EXPECT_THAT(refused({"--disk", scratch, "--states", "resident", "--disk-fraction", "1"}),
              HasSubstr("--states"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch));
}

// A machine that is not here: its folder need not be either, but its bytes must be said.
TEST_F(DiskCommands, PlanForAnotherMachine) {
  const Arguments work = {"plan",    "--machine",           "rtx-4090",
                          "--model", "preset:llama-3.2-3b", "--host-memory",
                          "16GiB",   "--device-memory",     "10GiB"};
  EXPECT_THAT(run_ebb(work + Arguments{"--disk", "/nowhere"}).err, HasSubstr("/nowhere:BYTES"));
  const Finished end = run_ebb(work + Arguments{"--disk", "/nowhere:200GiB"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("--disk-fraction"), HasSubstr("disk to host"),
                             Not(HasSubstr("Nothing of it goes"))));
}

TEST_F(DiskCommands, ProbeAndBenchMeasureIt) {
  const Finished probe = run_ebb({"probe", "--device", "cpu", "--seconds", "0", "--disk",
                                  scratch + ":64MiB", "--out", at("profile.json")});
  ASSERT_EQ(probe.code, 0) << probe.err;
  const Json profile = Json::parse(read_file(at("profile.json")));
  EXPECT_EQ(profile["figures"]["read_bytes_per_second"]["source"], "measured");
  EXPECT_GT(profile["tables"]["disk"]["write_beside_bytes_per_second"].get<double>(), 0);
  EXPECT_EQ(run_ebb(train(at("run"), 2) + Arguments{"--profile", at("profile.json")}).code, 0);
  const Finished bench = run_ebb({"bench", "disk", "--json", "--disk", scratch + ":64MiB"});
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_GT(Json::parse(bench.out)["read_bytes_per_second"].get<double>(), 0);
  EXPECT_EQ(run_ebb({"bench", "disk", "--disk", scratch + ":1MiB"}).code, 1);
  EXPECT_TRUE(std::filesystem::is_empty(scratch));
}

}  // namespace
}  // namespace ebb::cli
