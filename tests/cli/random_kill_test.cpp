// The promises: resume is exact, and nothing is lost, for runs that nobody chose: random settings,
// random placements, any signal at any moment. EBB_TEST_KILLS says how many (8); EBB_TEST_SEED
// which.
#include <signal.h>

#include <array>
#include <filesystem>
#include <random>
#include <regex>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

constexpr std::array kSignals = {SIGKILL, SIGTERM, SIGHUP, SIGINT};
// Far more than a step and a save of these runs; a process that hangs takes longer.
constexpr double kLongestEnd = 60;

std::int64_t number_of(const char* variable, std::int64_t otherwise) {
  const char* text = ::getenv(variable);
  return text == nullptr ? otherwise : std::stoll(text);
}

// The highest step that matches, 0 for none.
int last_match(const std::string& text, const std::regex& pattern) {
  int last = 0;
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    last = std::max(last, std::stoi((*it)[1]));
  }
  return last;
}

class RandomKillTest : public SmallCommands {
 protected:
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random); }
  double share() { return std::uniform_real_distribution<double>(0, 1)(random); }
  std::string one_of(const std::vector<std::string>& words) {
    return words[static_cast<std::size_t>(below(static_cast<int>(words.size())))];
  }

  // A run that was resumed goes on from what was said to be saved, or from something later.
  static void expect_from(const Finished& run, int promised) {
    static const std::regex resumed("Going on from step (\\d+)");
    const int from = last_match(run.out, resumed);
    if (from > 0) {
      EXPECT_GE(from, promised);
    }
  }

  // What the numbers may depend on.
  Arguments random_settings() {
    const std::string dtype = one_of({"bf16", "bf16", "fp32"});
    Arguments settings = {"--model",       "preset:tiny",
                          "--data",        data,
                          "--sequence",    one_of({"16", "24", "33", "64"}),
                          "--micro-batch", std::to_string(1 + below(3)),
                          "--accumulate",  std::to_string(1 + below(3)),
                          "--steps",       std::to_string(6 + below(10)),
                          "--dtype",       dtype,
                          "--seed",        std::to_string(below(1000))};
    const std::string rule = one_of({"adamw", "adamw", "lion", "sgd", "adagrad"});
    settings = settings + Arguments{"--optimizer", rule};
    if (rule == "adamw") {
      settings = settings + Arguments{"--state-format", one_of({"exact", "bf16", "int8"})};
    }
    return settings;
  }

  // What they may not depend on.
  Arguments random_placement() {
    Arguments placement = {"--threads",       std::to_string(1 + below(3)),
                           "--recompute",     one_of({"none", "block", "2", "auto"}),
                           "--activations",   one_of({"device", "host", "1", "auto"}),
                           "--weights",       one_of({"resident", "stream", "3", "auto"}),
                           "--gradient-sums", one_of({"device", "host", "2", "auto"})};
    const std::string states = one_of({"resident", "stream", "host", "auto"});
    placement = placement + Arguments{"--states", states};
    if (states == "stream" && below(2) == 0) {
      placement = placement + Arguments{"--offload-fraction", "0.7", "--host-fraction", "0.3"};
    }
    if (below(2) == 0) {
      placement = placement + Arguments{"--chunk-parameters", one_of({"4096", "50000", "1000000"})};
    }
    if (below(2) == 0) {
      placement =
          placement +
          Arguments{
              "--disk",      scratch(),          "--disk-weights",     one_of({"0", "9"}),
              "--disk-sums", one_of({"0", "9"}), "--disk-activations", one_of({"0", "1", "9"})};
      if (states != "resident") {
        placement = placement + Arguments{"--disk-fraction", one_of({"0.3", "0.7", "1"})};
      }
    }
    return placement;
  }

  std::string scratch() const {
    std::filesystem::create_directories(at("scratch"));
    return at("scratch");
  }

  Arguments random_saves() {
    return {"--save-every", one_of({"1", "2", "3", "end", "auto", "0.02s"}), "--keep",
            std::to_string(1 + below(3))};
  }

  std::mt19937 random{static_cast<unsigned>(number_of("EBB_TEST_SEED", 15))};
};

TEST_F(RandomKillTest, EndsWithTheBitsOfAnUnbrokenRun) {
  const std::regex saved("Saved .*step-0*(\\d+)");
  const auto kills = number_of("EBB_TEST_KILLS", 8);
  std::int64_t done = 0;
  double longest_end = 0;
  for (int round = 0; done < kills; ++round) {
    const Arguments settings = random_settings();
    const auto command = [&](const std::string& out) {
      return Arguments{"train", "--out", out, "--summary", out + ".json"} + settings;
    };
    const std::string whole = at(fmt::format("whole{}", round));
    const Finished unbroken = run_ebb(command(whole) + random_placement());
    ASSERT_EQ(unbroken.code, 0) << unbroken.err;
    const Json expected = Json::parse(read_file(whole + ".json"));

    const std::string out = at(fmt::format("run{}", round));
    int promised = 0;  // what was said to be saved
    std::string told;
    for (int attempt = 0; attempt < 5 && done < kills; ++attempt) {
      Process process(command(out) + random_placement() + random_saves() + Arguments{"--resume"});
      const int signal = kSignals[static_cast<std::size_t>(below(kSignals.size()))];
      const double moment = share() * 1.2 * unbroken.seconds;
      told += fmt::format("signal {} after {:.3f} s; ", signal, moment);
      SCOPED_TRACE(fmt::format("round {}: {}", round, told));
      process.run_for(moment);
      process.send(signal);
      const auto sent = std::chrono::steady_clock::now();
      const Finished end = process.wait();
      longest_end =
          std::max(longest_end,
                   std::chrono::duration<double>(std::chrono::steady_clock::now() - sent).count());
      ASSERT_TRUE(end.code == 0 || end.code == 130 || end.signal == signal)
          << end.code << end.err << end.out;
      expect_from(end, promised);
      promised = std::max(promised, last_match(end.out, saved));
      ++done;
      if (end.code == 0) break;
    }
    SCOPED_TRACE(fmt::format("round {}: {}", round, told));
    const Finished rest = run_ebb(command(out) + random_placement() + Arguments{"--resume"});
    ASSERT_EQ(rest.code, 0) << rest.err << rest.out;
    expect_from(rest, promised);
    const Json found = Json::parse(read_file(out + ".json"));
    EXPECT_EQ(found["weights_digest"], expected["weights_digest"]);
    EXPECT_EQ(found["moments_digest"], expected["moments_digest"]);
    for (const auto& entry : std::filesystem::directory_iterator(out)) {
      EXPECT_NE(entry.path().extension(), ".partial") << entry.path();
    }
    // However a run ended, nothing of its disk tier is left.
    EXPECT_TRUE(std::filesystem::is_empty(scratch()));
    std::filesystem::remove_all(out);
    std::filesystem::remove_all(whole);
    if (HasFailure()) return;
  }
  EXPECT_LT(longest_end, kLongestEnd);
  RecordProperty("kills", std::to_string(done));
  RecordProperty("longest_end_seconds", fmt::format("{:.2f}", longest_end));
  fmt::print("{} kills, the longest end took {:.2f} s\n", done, longest_end);
}

}  // namespace
}  // namespace ebb::cli
