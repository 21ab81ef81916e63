// The promises: resume is exact, and nothing is lost. A run that is killed at any moment and gone
// on with in any placement ends with the bits of one that was never stopped.
#include <filesystem>
#include <numeric>
#include <random>

#include "cli/small_commands.h"
#include "scale.h"

namespace ebb::cli {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr int kSteps = 10;
constexpr unsigned kSeed = 20;

// One after the other, from the first again.
const Arguments& placement(std::size_t index) {
  static const std::vector<Arguments> all = {
      {"--states", "resident", "--threads", "1"},
      {"--states", "stream", "--threads", "2"},
      {"--states", "host"},
      {"--states", "stream", "--offload-fraction", "0.8", "--host-fraction", "0.4"},
      {"--states", "host", "--offload-fraction", "0.5", "--recompute", "block"},
      {"--states", "stream", "--recompute", "2", "--activations", "host"},
      {"--use-cpu-offloading", "--chunk-parameters", "4096"},
      {"--chunk-parameters", "1000000", "--activations", "2", "--threads", "3"},
      {},
  };
  return all[index % all.size()];
}

class KillTest : public SmallCommands {
 protected:
  struct Digests {
    std::string weights;
    std::string moments;
    bool operator==(const Digests&) const = default;
  };

  Arguments command(const std::string& out) const {
    return train(out, kSteps) +
           Arguments{"--save-every", "2", "--resume", "--summary", out + ".json"};
  }

  static Digests digests(const std::string& out) {
    const Json summary = Json::parse(read_file(out + ".json"));
    return {summary["weights_digest"], summary["moments_digest"]};
  }

  // Resumes until the run has ended, and compares it with the unbroken one.
  void finish_and_compare(const std::string& out, std::size_t index) {
    const Finished run = run_ebb(command(out) + placement(index));
    ASSERT_EQ(run.code, 0) << run.err << run.out;
    EXPECT_EQ(digests(out).weights, expected.weights);
    EXPECT_EQ(digests(out).moments, expected.moments);
    expect_whole_log(out);
    for (const auto& entry : std::filesystem::directory_iterator(out)) {
      EXPECT_THAT(entry.path().string(), Not(testing::EndsWith(".partial")));
    }
  }

  static void expect_whole_log(const std::string& out) {
    std::ifstream log(out + "/log.jsonl");
    std::vector<int> steps;
    for (std::string line; std::getline(log, line);) steps.push_back(Json::parse(line).at("step"));
    std::vector<int> all(kSteps);
    std::iota(all.begin(), all.end(), 1);
    EXPECT_EQ(steps, all);
  }

  // The unbroken run, once for all tests.
  void SetUp() override {
    const Finished run = run_ebb(command(at("unbroken")));
    ASSERT_EQ(run.code, 0) << run.err;
    duration = run.seconds;
    expected = digests(at("unbroken"));
    expect_whole_log(at("unbroken"));
  }

  double duration = 0;
  Digests expected;
};

TEST_F(KillTest, AtTwentyMomentsOfARun) {
  const std::size_t kills = small_scale() ? 7 : 20;
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> within(0, 1);
  for (std::size_t i = 0; i < kills; ++i) {
    // One moment in each part of the run. It may be over before a late one: earlier, then.
    double moment =
        (static_cast<double>(i) + within(random)) / static_cast<double>(kills) * duration;
    std::string out;
    for (int attempt = 0;; ++attempt) {
      ASSERT_LT(attempt, 20) << "no run lasts " << moment << " s";
      out = at(fmt::format("run{}-{}", i, attempt));
      Process process(command(out) + placement(i));
      process.run_for(moment);
      if (process.kill().signal == SIGKILL) break;
      moment *= 0.9;
    }
    SCOPED_TRACE(
        fmt::format("seed {}, killed after {:.3f} s of {:.3f} s", kSeed, moment, duration));
    // Every other one a second time, if it lasts that long.
    if (i % 2 == 1) {
      Process process(command(out) + placement(i + 1));
      process.run_for(within(random) * duration);
      const Finished end = process.kill();
      EXPECT_TRUE(end.code == 0 || end.signal == SIGKILL) << end.err;
    }
    finish_and_compare(out, i + 2);
  }
}

// A save's stages, each told by a name that is there from then on, and still there when the run is
// dead: else the moment was missed, and another run is killed. (A crash at every single operation
// is tests/checkpoint's.) The first save takes another way than the third, which replaces nothing
// but makes the first superfluous.
TEST_F(KillTest, InTheMiddleOfASave) {
  constexpr int kAttempts = 10;
  const std::vector<std::string> stages = {
      "step-00000002.partial",
      "step-00000002.partial/model.safetensors",
      "step-00000002.partial/state.safetensors",
      "step-00000002",
      "step-00000004.partial/model.safetensors",
      "step-00000006.partial/state.safetensors",
      "step-00000006",
      "step-00000010.partial",
  };
  for (std::size_t i = 0; i < stages.size(); ++i) {
    SCOPED_TRACE("killed at " + stages[i]);
    std::string out;
    bool hit = false;
    for (int attempt = 0; attempt < kAttempts && !hit; ++attempt) {
      out = at(fmt::format("save{}-{}", i, attempt));
      const auto there = [&] { return std::filesystem::exists(out + "/" + stages[i]); };
      Process process(command(out) + placement(i + 2));
      process.run_until(there);
      hit = process.kill().signal == SIGKILL && there();
    }
    ASSERT_TRUE(hit) << "missed " << kAttempts << " times";
    finish_and_compare(out, i + 5);
  }
}

TEST_F(KillTest, WhileTheLogIsTakenUp) {
  const std::string out = at("log");
  Process first(command(out));
  first.run_until([&] { return first.out().find("step 5/") != std::string::npos; });
  first.kill();
  // A line that was cut, as by a full disk, and one of a step that no checkpoint has.
  std::ofstream(out + "/log.jsonl", std::ios::app) << "{\"step\": 6, \"lo";
  Process second(command(out));
  second.run_until([&] { return second.out().find("Going on") != std::string::npos; });
  second.kill();
  finish_and_compare(out, 3);
}

TEST_F(KillTest, AnInterruptSavesAndEndsWith130) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const std::string out = at(fmt::format("interrupted{}", signal));
    // Saves at the end only, so that the checkpoint is the interrupt's.
    const Arguments whole = train(out, kSteps) + Arguments{"--summary", out + ".json"};
    Process process(whole);
    ASSERT_TRUE(
        process.run_until([&] { return process.out().find("step 1/") != std::string::npos; }));
    process.send(signal);
    const Finished run = process.wait();
    ASSERT_EQ(run.code, 130) << run.err;
    EXPECT_THAT(run.out, HasSubstr("Interrupted"));
    EXPECT_THAT(run.out, ContainsRegex("Saved .*step-0000000"));
    EXPECT_THAT(run.out, Not(HasSubstr("\r")));
    EXPECT_THAT(run.out, Not(HasSubstr("\033")));
    EXPECT_LT(Json::parse(read_file(out + ".json"))["steps"], kSteps);
    finish_and_compare(out, 1);
  }
}

}  // namespace
}  // namespace ebb::cli
