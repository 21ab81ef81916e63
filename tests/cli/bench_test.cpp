// ebb bench, and the instruction set that it and the other verbs run on.
#include <cstdlib>
#include <map>
#include <set>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

// For commands that are started while it lives.
class Environment {
 public:
  explicit Environment(const std::string& isa) { ::setenv("EBB_ISA", isa.c_str(), 1); }
  ~Environment() { ::unsetenv("EBB_ISA"); }
};

const Arguments kQuick = {"bench", "optimizer", "--parameters", "5000", "--seconds", "0"};

Json bench(const Arguments& flags) {
  const Finished end = run_ebb(kQuick + flags + Arguments{"--json"});
  EXPECT_EQ(end.code, 0) << end.err;
  return Json::parse(end.out);
}

std::set<std::string> pairs_of(const Json& rows) {
  std::set<std::string> pairs;
  for (const Json& row : rows) {
    pairs.insert(row.at("rule").get<std::string>() + " " + row.at("format").get<std::string>());
  }
  return pairs;
}

void expect_refused(const Arguments& arguments, const std::vector<std::string>& words,
                    int code = 1) {
  const Finished end = run_ebb(arguments);
  EXPECT_EQ(end.code, code) << end.err;
  EXPECT_EQ(end.out, "");
  EXPECT_TRUE(end.err.starts_with("ebb: ")) << end.err;
  for (const std::string& word : words) EXPECT_THAT(end.err, HasSubstr(word));
}

// The worst there is, so that every processor has a better one.
std::string lowest_isa() {
  const Environment environment("nonsense");
  const std::string text = run_ebb({"probe", "--device", "cpu"}).err;
  EXPECT_THAT(text, AllOf(HasSubstr("EBB_ISA=nonsense"), HasSubstr("this processor has")));
  const std::size_t comma = text.rfind(", ");
  return comma == std::string::npos ? "" : text.substr(comma + 2, text.find('\n') - comma - 2);
}

TEST(Bench, OptimizerAsJson) {
  const Json json = bench({"--threads", "1", "2"});
  EXPECT_EQ(json.at("parameters"), 5000);
  const std::set<std::string> expected = {"adamw exact", "adamw bf16", "adamw int8",   "adam exact",
                                          "lion exact",  "sgd exact",  "adagrad exact"};
  EXPECT_EQ(pairs_of(json.at("rows")), expected);
  ASSERT_EQ(json.at("rows").size(), 2 * expected.size());
  const std::vector<std::string> keys = {
      "bytes_per_parameter", "format", "gb_per_second",    "isa",
      "ns_per_parameter",    "rule",   "share_of_ceiling", "threads"};
  std::map<int, int> rows_of_threads;
  for (const Json& row : json.at("rows")) {
    std::vector<std::string> found;
    for (const auto& item : row.items()) found.push_back(item.key());
    EXPECT_EQ(found, keys);
    ++rows_of_threads[row.at("threads").get<int>()];
    for (const char* key : {"ns_per_parameter", "gb_per_second", "share_of_ceiling"}) {
      EXPECT_GT(row.at(key), 0) << row.dump();
    }
    // The same pass, said in two ways.
    EXPECT_NEAR(row.at("gb_per_second").get<double>() * row.at("ns_per_parameter").get<double>(),
                row.at("bytes_per_parameter").get<double>(), 1e-6)
        << row.dump();
  }
  EXPECT_EQ(rows_of_threads, (std::map<int, int>{{1, 7}, {2, 7}}));
  std::multiset<std::string> passes;
  for (const Json& row : json.at("gradients")) passes.insert(row.at("pass").get<std::string>());
  EXPECT_EQ(passes, (std::multiset<std::string>{"add_gradient", "add_gradient", "square_sums",
                                                "square_sums"}));
}

TEST(Bench, OptimizerAsText) {
  const Finished end = run_ebb(kQuick + Arguments{"--rule", "adamw", "--threads", "1"});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, AllOf(HasSubstr("adamw        exact"), HasSubstr("adamw        int8"),
                             HasSubstr("add_gradient"), HasSubstr("square_sums"),
                             HasSubstr("of ceiling"), HasSubstr("s per 1 B")));
  EXPECT_THAT(end.out, HasSubstr("Give more --parameters")) << "5000 parameters fit into caches";
  EXPECT_THAT(end.err, AllOf(HasSubstr("100%"), EndsWith("\n"), Not(HasSubstr("0 us left"))))
      << "progress in a pipe";
}

TEST(Bench, Filters) {
  const auto pairs = [](const Arguments& flags) {
    return pairs_of(bench(flags + Arguments{"--threads", "1"}).at("rows"));
  };
  using Pairs = std::set<std::string>;
  EXPECT_EQ(pairs({"--rule", "lion", "sgd"}), (Pairs{"lion exact", "sgd exact"}));
  EXPECT_EQ(pairs({"--format", "int8"}), Pairs{"adamw int8"});
  EXPECT_EQ(pairs({"--rule", "adamw", "adam", "--format", "exact"}),
            (Pairs{"adamw exact", "adam exact"}));
  // 0 is all threads; one that is named twice is measured once.
  EXPECT_EQ(bench({"--rule", "sgd", "--threads", "0", "0"}).at("rows").size(), 1u);
}

TEST(Bench, BadFlags) {
  const auto refused = [](const Arguments& flags, const std::vector<std::string>& words,
                          int code = 1) { expect_refused(kQuick + flags, words, code); };
  refused({"--rule", "adamax"}, {"--rule 'adamax'", "adagrad", "adamw", "lion"});
  refused({"--format", "int4"}, {"--format 'int4'", "exact, bf16 or int8"});
  refused({"--rule", "lion", "--format", "int8"}, {"--rule lion", "--format int8", "adamw's"});
  refused({"--threads", "-1"}, {"--threads -1", "expected"});
  refused({"--threads", "100000"}, {"--threads 100000", "to 4096"});
  refused({"--moon"}, {"--moon", "ebb bench optimizer --help"});
  for (const char* seconds : {"-1", "nan", "3601"}) {
    expect_refused({"bench", "optimizer", "--seconds", seconds},
                   {std::string("--seconds ") + seconds, "expected 0 to 3600"});
  }
  const Arguments bench = {"bench", "optimizer", "--parameters"};
  expect_refused(bench + Arguments{"-5"}, {"--parameters -5", "from 1 to"});
  expect_refused(bench + Arguments{"1000000000001"}, {"--parameters 1000000000001", "from 1 to"});
  expect_refused(bench + Arguments{"1000000000000"},
                 {"--parameters 1000000000000", "TiB", "give at most", "--rule"}, 2);
  expect_refused({"bench"}, {"subcommand", "ebb bench --help"});
  expect_refused({"bench", "moon"}, {"'moon' is not a verb",
                                     "The verbs of 'ebb bench' are optimizer", "ebb bench --help"});
}

class Isa : public SmallCommands {
 protected:
  // Commands of every verb that computes.
  std::vector<Arguments> computing(const std::string& run) const {
    return {{"probe", "--device", "cpu"},
            Arguments{"plan", "--model", "preset:tiny", "--device", "cpu"} + batch(1),
            train(at("refused"), 1) + Arguments{"--device", "cpu"},
            {"generate", "--model", run, "--device", "cpu", "--prompt", "t", "--max-tokens", "1"},
            kQuick + Arguments{"--rule", "sgd", "--threads", "1"}};
  }
};

TEST_F(Isa, WhatTheProcessorLacksIsRefused) {
  const std::string run = trained("run", 1);
  const Environment environment("nonsense");
  for (const Arguments& command : computing(run)) {
    SCOPED_TRACE(command.front());
    expect_refused(command, {"EBB_ISA=nonsense", "this processor has"});
  }
}

TEST_F(Isa, TheOneInUseIsSaid) {
  const std::string lowest = lowest_isa();
  ASSERT_NE(lowest, "");
  const Environment environment(lowest);
  EXPECT_EQ(bench({"--rule", "sgd", "--threads", "1"}).at("rows").at(0).at("isa"), lowest);
  const Finished probe = run_ebb({"probe", "--device", "cpu", "--seconds", "0"});
  EXPECT_THAT(probe.out, HasSubstr("CPU instruction set: " + lowest)) << probe.err;
  trained("run", 1, {"--device", "cpu", "--summary", at("summary.json")});
  EXPECT_EQ(Json::parse(read_file(at("summary.json"))).at("isa"), lowest);
}

}  // namespace
}  // namespace ebb::cli
