// Pages, views and logs of real runs.
#include <fcntl.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <sstream>

#include "cli/small_commands.h"

namespace ebb::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ReportTest : public SmallCommands {
 protected:
  // What a page draws.
  static Json data_of(const std::string& page) {
    const std::string open = "<script type=\"application/json\" id=\"data\">";
    const std::size_t from = page.find(open) + open.size();
    return Json::parse(page.substr(from, page.find("</script>", from) - from));
  }

  static std::vector<std::vector<std::string>> rows_of(const std::string& csv) {
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(csv);
    for (std::string line; std::getline(lines, line);) {
      std::vector<std::string> cells;
      std::istringstream text(line + ",");
      for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
      rows.push_back(cells);
    }
    return rows;
  }

  // The run's command on a terminal of 24 rows and 80 columns: all that it wrote there.
  static std::string on_terminal(const Arguments& arguments) {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_EQ(::grantpt(terminal), 0);
    EXPECT_EQ(::unlockpt(terminal), 0);
    const std::string name = ::ptsname(terminal);
    const int other = ::open(name.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 80;
    EXPECT_EQ(::ioctl(other, TIOCSWINSZ, &size), 0);
    std::string text;
    {
      Process process(arguments, [&] {
        ::setenv("TERM", "xterm", 1);
        ::dup2(other, STDOUT_FILENO);
      });
      ::fcntl(terminal, F_SETFL, O_NONBLOCK);
      const auto take = [&] {
        char piece[4096];
        for (ssize_t got; (got = ::read(terminal, piece, sizeof piece)) > 0;) {
          text.append(piece, static_cast<std::size_t>(got));
        }
        return false;
      };
      process.run_until(take);
      const Finished end = process.wait();
      take();
      EXPECT_EQ(end.code, 0) << end.err << text;
    }
    ::close(other);
    ::close(terminal);
    return text;
  }
};

TEST_F(ReportTest, AFolderAloneHasAllThatAPageShows) {
  const std::string run = trained(
      "run", 7,
      {"--device", "cpu", "--states", "stream", "--eval-share", "0.2", "--eval-every", "3"});
  const Finished end = run_ebb({"report", run, "--out", at("pages/report.html")});
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("Wrote " + at("pages/report.html")));
  const std::string page = read_file(at("pages/report.html"));
  EXPECT_THAT(page, AllOf(HasSubstr("preset:tiny"), HasSubstr("7 of 7"),
                          HasSubstr("optimizer.schedule.peak"), HasSubstr("model.safetensors"),
                          HasSubstr("The plan in words"), HasSubstr("parameters in")));
  const Json shown = data_of(page).at("runs").at(0);
  EXPECT_EQ(shown.at("curves").at("loss").at("step").size(), 7u);
  EXPECT_EQ(shown.at("curves").at("validation_loss").at("step"), (Json{3, 6, 7}));
  for (const char* kind : {"predicted", "measured"}) {
    SCOPED_TRACE(kind);
    const Json& step = shown.at(kind);
    EXPECT_EQ(step.at("kind"), kind);
    EXPECT_GT(step.at("seconds").get<double>(), 0);
    EXPECT_GT(step.at("lanes").at(0).at("spans").size(), 10u);
    EXPECT_EQ(step.at("memory").at(0).at("tier"), "device");
    EXPECT_GT(step.at("memory").at(0).at("bytes").size(), 3u);
  }
  // What was measured is what was planned: the compute lane has the same tasks, in one order. Other
  // lanes may do in a measured step what was planned for the end of the one before.
  const auto names = [&](const char* kind) {
    std::vector<std::string> all;
    for (const Json& span : shown.at(kind).at("lanes").at(0).at("spans")) {
      const auto place = span.at(2).get<std::size_t>();
      all.push_back(shown.at(kind).at("names").at(place).get<std::string>());
    }
    return all;
  };
  EXPECT_EQ(names("predicted"), names("measured"));
}

TEST_F(ReportTest, ComparesRunsAndThoseThatEndedEarly) {
  const std::string one = trained("one", 2);
  const std::string other = trained("two", 3, {"--learning-rate", "0.001", "--save-every", "0"});
  const Finished end = run_ebb({"report", one, other, "--out", at("both.html")});
  ASSERT_EQ(end.code, 0) << end.err;
  const std::string page = read_file(at("both.html"));
  EXPECT_THAT(page, AllOf(HasSubstr("2 runs compared"), HasSubstr("class=\"differs\"")));
  const Json shown = data_of(page);
  ASSERT_EQ(shown.at("runs").size(), 2u);
  for (const Json& run : shown.at("runs")) EXPECT_TRUE(run.at("measured").is_object());

  const Finished wrong = run_ebb({"report", at("cache"), "--out", at("none.html")});
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.err, HasSubstr("this is no run"));
  EXPECT_FALSE(std::filesystem::exists(at("none.html")));
}

TEST_F(ReportTest, OfAPlanBeforeAnythingRuns) {
  const Finished end = run_ebb({"plan", "--model", "preset:qwen2.5-0.5b", "--machine", "rtx-4090",
                                "--device-memory", "8GiB", "--report", at("plan.html")});
  ASSERT_EQ(end.code, 0) << end.err;
  const std::string page = read_file(at("plan.html"));
  const Json shown = data_of(page).at("runs").at(0);
  EXPECT_TRUE(shown.at("predicted").is_object());
  EXPECT_TRUE(shown.at("measured").is_null());
  EXPECT_THAT(page, AllOf(HasSubstr("Plan of preset:qwen2.5-0.5b"), HasSubstr("id=\"lanes\""),
                          Not(HasSubstr("id=\"curves\""))));
}

TEST_F(ReportTest, PicturesChangeNoBit) {
  // A page of a run that is traced, too, shows the same.
  const auto digests = [&](const std::string& name, const Arguments& more) {
    trained(name, 8, Arguments{"--summary", at(name + ".json")} + more);
    const Json summary = Json::parse(read_file(at(name + ".json")));
    EXPECT_TRUE(std::filesystem::exists(at(name) + "/step.json"));
    return std::pair(summary.at("weights_digest"), summary.at("moments_digest"));
  };
  EXPECT_EQ(digests("plain", {}), digests("traced", {"--trace", at("t.json"), "--log", "csv"}));
}

TEST_F(ReportTest, LogsAsCsvAndEventsGoOnWhereTheRunDoes) {
  const Arguments logs = {"--log", "csv", "tensorboard"};
  const std::string run =
      trained("run", 4, logs + Arguments{"--save-every", "2", "--schedule", "constant"});
  const auto steps_in = [&](const std::string& column) {
    const auto rows = rows_of(read_file(run + "/log.csv"));
    const auto place = std::find(rows.at(0).begin(), rows.at(0).end(), column) - rows.at(0).begin();
    std::vector<std::string> values;
    for (std::size_t i = 1; i < rows.size(); ++i) {
      EXPECT_EQ(rows[i].size(), rows[0].size()) << "row " << i;
      values.push_back(rows[i].at(static_cast<std::size_t>(place)));
    }
    return values;
  };
  EXPECT_EQ(steps_in("step"), (std::vector<std::string>{"1", "2", "3", "4"}));
  std::filesystem::remove_all(step_folder(run, 4));
  const Finished resumed = run_ebb(
      train(run, 5) + logs + Arguments{"--resume", "--schedule", "constant", "--eval-data", data});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(steps_in("step"), (std::vector<std::string>{"1", "2", "3", "4", "5", "5"}));
  EXPECT_NE(steps_in("validation_loss").back(), "");
  EXPECT_EQ(steps_in("loss").back(), "");
  EXPECT_NE(steps_in("device_bytes").front(), "");
  // An event file for each part of the run.
  std::vector<std::filesystem::path> events;
  for (const auto& entry : std::filesystem::directory_iterator(run + "/tensorboard")) {
    EXPECT_THAT(entry.path().filename().string(), HasSubstr("events.out.tfevents."));
    EXPECT_GT(std::filesystem::file_size(entry.path()), 200u);
    events.push_back(entry.path());
  }
  EXPECT_EQ(events.size(), 2u);
  EXPECT_THAT(run_ebb(train(at("x"), 2) + Arguments{"--log", "xml"}).err, HasSubstr("csv"));
}

TEST_F(ReportTest, WatchTellsWhatTheLogHas) {
  const std::string run = trained("run", 4, {"--eval-data", data});
  const Finished end = run_ebb({"watch", run});
  ASSERT_EQ(end.code, 0) << end.err;
  for (int step = 1; step <= 4; ++step) {
    EXPECT_THAT(end.out, HasSubstr(fmt::format("step {}/4  loss", step)));
  }
  EXPECT_THAT(end.out, AllOf(HasSubstr("Validation after step 4"), HasSubstr("The run has ended"),
                             Not(HasSubstr("\r"))));
  EXPECT_THAT(run_ebb({"watch", at("cache")}).err, HasSubstr("this is no run"));
}

TEST_F(ReportTest, WatchFollowsUntilTheRunEnds) {
  Process training(train(at("run"), 1'000'000) + Arguments{"--save-every", "0"});
  ASSERT_TRUE(
      training.run_until([&] { return training.out().find("step 2/") != std::string::npos; }));
  Process watch({"watch", at("run")});
  ASSERT_TRUE(watch.run_until([&] { return watch.out().find("step 2/") != std::string::npos; }));
  EXPECT_EQ(watch.out().find("The run has ended"), std::string::npos);
  training.send(SIGKILL);  // it leaves its lock behind
  training.wait();
  const Finished end = watch.wait();
  EXPECT_EQ(end.code, 0) << end.err;
  EXPECT_THAT(end.out, HasSubstr("The run has ended"));
}

TEST_F(ReportTest, OnATerminalAViewRenewsItself) {
  const std::string text = on_terminal(train(at("run"), 4));
  EXPECT_THAT(text, AllOf(HasSubstr("step 4/4  loss"), HasSubstr("█"), HasSubstr("device"),
                          HasSubstr(" of "), HasSubstr("tokens/s"), HasSubstr("\033[J")));
  // What it says besides stays above it, in lines of its own.
  EXPECT_THAT(text, HasSubstr("Saved " + at("run")));
  const std::string watched = on_terminal({"watch", at("run")});
  EXPECT_THAT(watched,
              AllOf(HasSubstr("step 4/4"), HasSubstr("░"), HasSubstr("The run has ended")));
}

}  // namespace
}  // namespace ebb::cli
