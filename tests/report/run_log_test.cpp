// A log that is read piece by piece, and what is no line of a log.
#include "report/run_log.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/json.h"

namespace ebb::report {
namespace {

RunLog read(std::string_view text, std::size_t piece = 1 << 20) {
  RunLog log;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    log.feed(text.substr(0, piece));
  }
  return log;
}

constexpr std::string_view kLog =
    "{\"step\":1,\"loss\":5.5,\"norm\":2.0,\"learning_rate\":0.1,\"seconds\":0.5,"
    "\"tokens_per_second\":100.0,\"memory\":{\"device\":1000,\"host\":7}}\n"
    "{\"step\":2,\"loss\":4.5,\"norm\":null,\"learning_rate\":0.1,\"seconds\":0.25,"
    "\"tokens_per_second\":120.0,\"utilization\":0.5,\"memory\":{\"device\":1200,\"host\":7}}\n"
    "{\"step\":2,\"validation_loss\":4.75,\"validation_tokens\":64}\n";

TEST(RunLog, IsTheSameInPiecesOfAnySize) {
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1000}}) {
    SCOPED_TRACE(piece);
    const RunLog log = read(kLog, piece);
    EXPECT_EQ(log.steps(), 2);
    EXPECT_EQ(log.last_step(), 2);
    EXPECT_EQ(log.bad_lines(), 0);
    EXPECT_EQ(log.seconds(), 0.75);
    ASSERT_EQ(log.curve(0).points(), 2);
    EXPECT_EQ(log.curve(0).last(), 4.5);
    EXPECT_EQ(log.curve(1).not_finite(), 1) << "a norm that is not finite is written as null";
    EXPECT_EQ(log.curve(4).points(), 1) << "utilization";
    EXPECT_EQ(log.validation().last(), 4.75);
    ASSERT_EQ(log.memory().size(), 2u);
    EXPECT_EQ(log.memory().front().second, 1200);
  }
}

TEST(RunLog, WritesAndReadsTheSameLine) {
  LogLine line;
  line.step = 3;
  line.loss = 0.1;
  line.utilization = 0.25;
  line.memory = {{"device", 12}, {"disk", 0}};
  const auto read_again = parse_log_line(to_json(line).dump());
  ASSERT_TRUE(read_again.has_value());
  EXPECT_EQ(read_again->loss, line.loss);
  EXPECT_EQ(read_again->utilization, line.utilization);
  EXPECT_FALSE(read_again->norm.has_value());
  EXPECT_EQ(read_again->memory, line.memory);
}

TEST(RunLog, PassesOverWhatIsNoLine) {
  const std::string long_line(100'000, 'x');
  for (const std::string& bad :
       {std::string("not json"), std::string("[]"), std::string("{\"step\":-1}"),
        std::string("{\"step\":1e300}"), std::string("{\"step\":18446744073709551615}"),
        std::string("{\"loss\":1}"), std::string("{\"step\":1,\"loss\":9}"), std::string(),
        std::string("\0{\"step\":5}", 12), long_line}) {
    SCOPED_TRACE(bad.substr(0, 40));
    const RunLog log = read(std::string(kLog) + bad + "\n{\"step\":9,\"loss\":4.0}\n");
    EXPECT_EQ(log.bad_lines(), 1);
    EXPECT_EQ(log.steps(), 3);
    EXPECT_EQ(log.last_step(), 9);
    EXPECT_EQ(log.curve(0).points(), 3);
  }
}

TEST(RunLog, ALineWithoutItsEndIsNotThereYet) {
  const RunLog log = read(std::string(kLog) + "{\"step\":3,\"loss\":4.0}");
  EXPECT_EQ(log.last_step(), 2);
  EXPECT_EQ(log.bad_lines(), 0);
}

}  // namespace
}  // namespace ebb::report
