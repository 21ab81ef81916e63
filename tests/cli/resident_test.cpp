// The promise: a limit means the process. What it holds in memory is what the limits allow, and a
// stated constant for what is outside them.
#include <filesystem>
#include <iterator>
#include <sstream>

#include "base/rng.h"
#include "cli/small_commands.h"
#include "ebb/units.h"
#include "heap_watch.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Code, libraries, stacks, and what the allocator keeps: see docs/limits.md.
constexpr Bytes kOutside = 32 * kMiB;

// What the process came to hold of its own. What it was before the run took anything is its code
// and libraries, which are many where it was built with CUDA.
Bytes taken(const Json& process) {
  return process.at("resident_peak").get<Bytes>() - process.at("resident_at_start").get<Bytes>();
}

class ResidentTest : public SmallCommands {
 protected:
  // On the cpu device, whose device memory is the process's too.
  Finished run(const std::string& name, const Arguments& more) const {
    return run_ebb(Arguments{"train", "--model", "preset:tiny", "--device", "cpu", "--data", data,
                             "--out", at(name), "--steps", "3", "--keep", "0", "--micro-batch", "2",
                             "--summary", at(name + ".json")} +
                   more);
  }
  Json summary(const std::string& name) const { return Json::parse(read_file(at(name + ".json"))); }

  // A tokenizer whose merges are many and all the same: small in what it can do, large in memory.
  std::string heavy_tokenizer(int merges) const {
    const std::string path = at("heavy");
    std::filesystem::create_directories(path);
    std::string text =
        R"({"added_tokens": [{"id": 3, "content": "<|endoftext|>", "special": true}],
            "decoder": {"type": "Fuse"},
            "model": {"type": "BPE", "unk_token": "a", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [)";
    for (int i = 0; i < merges; ++i) text += i == 0 ? R"(["a","b"])" : R"(,["a","b"])";
    write_file(path + "/tokenizer.json", text + "]}}");
    return path;
  }
};

TEST_F(ResidentTest, UnderTightLimitsTheProcessIsNoLargerThanTheyAllow) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  const CounterRng rng(11, 0);
  std::uint64_t draws = 0;
  const auto pick = [&](std::vector<std::string> from) {
    return from[static_cast<std::size_t>(rng.uniform(draws++) * static_cast<double>(from.size()))];
  };
  for (int i = 0; i < 4; ++i) {
    const std::string name = fmt::format("run{}", i);
    const Arguments more = {
        "--threads",  pick({"1", "2", "4"}), "--accumulate",   pick({"1", "2", "40"}),
        "--sequence", pick({"32", "200"}),   "--state-format", pick({"exact", "int8"})};
    const Finished roomy = run(name, more + Arguments{"--states", pick({"stream", "host"})});
    ASSERT_EQ(roomy.code, 0) << roomy.err;
    const Json tiers = summary(name).at("tiers");
    std::istringstream words(summary(name).at("plan").get<std::string>());
    const Arguments plan{std::istream_iterator<std::string>(words), {}};
    const auto device = tiers.at("device").at("predicted_peak").get<Bytes>();
    const auto host = tiers.at("host").at("predicted_peak").get<Bytes>();
    // The same plan again, in no more than it said it needs.
    const std::string tight = name + "-tight";
    const Finished end =
        run(tight, more + plan +
                       Arguments{"--device-memory", std::to_string(device), "--host-memory",
                                 std::to_string(host), "--verbose"});
    ASSERT_EQ(end.code, 0) << end.err;
    const Json process = summary(tight).at("process");
    const auto resident = process.at("resident_peak").get<Bytes>();
    EXPECT_LE(taken(process), device + host + kOutside) << process.dump();
    EXPECT_LE(process.at("counted").get<Bytes>(), device + host);
    EXPECT_GT(resident, process.at("resident_at_start").get<Bytes>());
    EXPECT_THAT(end.err + end.out, HasSubstr("Memory of the process"));
  }
}

TEST_F(ResidentTest, ATokenizerCountsAgainstTheHostLimit) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  const std::string tokenizer = heavy_tokenizer(1'000'000);
  const Arguments heavy = {"--tokenizer", tokenizer, "--threads", "1", "--sequence", "32"};
  const Finished refused =
      run("refused", heavy + Arguments{"--device-memory", "40MiB", "--host-memory", "100MiB"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("tokenizer.json"), HasSubstr("the limit is 100 MiB"),
                                 HasSubstr("--host-memory")));
  const Finished end =
      run("ran", heavy + Arguments{"--device-memory", "40MiB", "--host-memory", "300MiB"});
  ASSERT_EQ(end.code, 0) << end.err;
  const Json json = summary("ran");
  EXPECT_LE(taken(json.at("process")), 340 * kMiB + kOutside) << json.at("process").dump();
  EXPECT_GE(json.at("tiers").at("host").at("counted").at("tokenizer").get<Bytes>(), 32 * kMiB);
}

TEST_F(ResidentTest, AHungryChatTemplateStopsAtItsPartOfTheLimit) {
  if (!HeapWatch::works()) GTEST_SKIP() << "sanitizers take memory of their own";
  const std::string folder = heavy_tokenizer(1);
  write_file(folder + "/chat_template.jinja",
             "{{ ('a ' * 30000000).split() | length }}{{ messages[0].content }}");
  write_file(
      at("chat.jsonl"),
      R"({"messages": [{"role": "user", "content": "ab"}, {"role": "assistant", "content": "ba"}]})"
      "\n");
  const Finished end = run_ebb({"train",
                                "--model",
                                "preset:tiny",
                                "--device",
                                "cpu",
                                "--data",
                                at("chat.jsonl"),
                                "--tokenizer",
                                folder,
                                "--out",
                                at("chatty"),
                                "--sequence",
                                "16",
                                "--steps",
                                "2",
                                "--threads",
                                "1",
                                "--device-memory",
                                "40MiB",
                                "--host-memory",
                                "32MiB"});
  EXPECT_NE(end.code, 0);
  EXPECT_THAT(end.err, AllOf(HasSubstr("chat_template.jinja"), HasSubstr("line 1"),
                             HasSubstr("longer than 128 KiB")));
  EXPECT_FALSE(std::filesystem::exists(at("chatty/step-00000000"))) << "nothing was trained";
}

TEST_F(ResidentTest, APlanOfVeryManyMicroBatchesIsRefused) {
  const Finished refused = run_ebb({"plan", "--model", "preset:tiny", "--sequence", "32",
                                    "--micro-batch", "1", "--accumulate", "65536"});
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("--accumulate 65536"), HasSubstr("--micro-batch")));
  const Finished large =
      run_ebb({"plan", "--model", "preset:tiny", "--sequence", "32", "--micro-batch", "1",
               "--accumulate", "10000", "--host-memory", "100MiB", "--device-memory", "200MiB"});
  EXPECT_EQ(large.code, 2) << large.out;
  EXPECT_THAT(large.err, AllOf(HasSubstr("plan and queues"), HasSubstr("Missing on the host")));
}

}  // namespace
}  // namespace ebb::cli
