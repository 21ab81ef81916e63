// Pages in a browser, where there is one: they draw, say nothing on the console, ask for nothing
// and are no wider than a phone. Chromium is not installed for it: it is 300 MB.
#include <algorithm>
#include <cmath>
#include <regex>

#include "cli/small_commands.h"
#include "scale.h"

namespace ebb::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string find_browser() {
  std::istringstream folders(std::getenv("PATH") == nullptr ? "" : std::getenv("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    for (const char* name : {"chromium", "chromium-browser", "google-chrome"}) {
      const std::string path = folder + "/" + name;
      if (::access(path.c_str(), X_OK) == 0) return path;
    }
  }
  return {};
}

class ReportBrowserTest : public SmallCommands {
 protected:
  void SetUp() override {
    if (browser_.empty()) GTEST_SKIP() << "no Chromium here";
  }

  struct Opened {
    std::string document;  // after the page's script ran
    std::string console;
    int width = 0;  // of the document
  };

  // The page with a line of its own behind it, which makes it as wide as a window of that width (a
  // browser's own has 500 pixels at least) and notes how wide it has become.
  Opened open(const std::string& page, int width) const {
    std::string text = read_file(page);
    const std::size_t end = text.rfind("</body>");
    text.insert(end,
                fmt::format("<script>document.body.style.width = '{}px'; setTimeout(() => "
                            "document.documentElement.dataset.wide = document.body.scrollWidth, "
                            "500);</script>",
                            width));
    write_file(at("opened.html"), text);
    const Finished run =
        Process({"--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 "--disable-background-networking", "--enable-logging=stderr", "--v=0",
                 "--user-data-dir=" + at("browser"),
                 fmt::format("--window-size={},1200", std::max(width, 500)),
                 "--virtual-time-budget=5000", "--dump-dom", "file://" + at("opened.html")},
                {}, browser_)
            .wait();
    EXPECT_EQ(run.code, 0) << run.err;
    Opened opened{.document = run.out, .console = {}};
    std::istringstream lines(run.err);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("CONSOLE") != std::string::npos) opened.console += line + "\n";
    }
    std::smatch wide;
    if (std::regex_search(opened.document, wide, std::regex("data-wide=\"([0-9]+)\""))) {
      opened.width = std::stoi(wide[1]);
    }
    return opened;
  }

  void expect_good(const std::string& page, int width) const {
    SCOPED_TRACE(fmt::format("{} at {} pixels", page, width));
    const Opened opened = open(page, width);
    EXPECT_THAT(opened.document, HasSubstr("data-drawn=\""));
    EXPECT_THAT(opened.document, HasSubstr("<polyline"));
    EXPECT_THAT(opened.document, HasSubstr("<canvas"));
    EXPECT_EQ(opened.console, "");
    EXPECT_GT(opened.width, 0);
    EXPECT_LE(opened.width, width) << "the page is wider than the window";
  }

  // As a run of so many steps would have left it.
  void lengthen_log(const std::string& run, int steps) const {
    std::string log;
    for (int step = 1; step <= steps; ++step) {
      log += fmt::format(
          "{{\"step\":{},\"loss\":{},\"norm\":{},\"learning_rate\":{},\"seconds\":0.01,"
          "\"tokens_per_second\":{},\"utilization\":0.4}}\n",
          step, 2 + 3 / std::sqrt(step) + 0.3 * std::sin(step), step == 777 ? 1e4 : 1.0,
          1e-3 / step, 6000 + step % 100);
    }
    write_file(run + "/log.jsonl", log);
  }

  const std::string browser_ = find_browser();
};

TEST_F(ReportBrowserTest, PagesOfShortAndLongRuns) {
  const std::string run = trained("run", 10, {"--eval-share", "0.2", "--eval-every", "4"});
  ASSERT_EQ(run_ebb({"report", run, "--out", at("short.html")}).code, 0);
  expect_good(at("short.html"), 400);
  lengthen_log(run, 100'000);
  ASSERT_EQ(run_ebb({"report", run, run, "--out", at("long.html")}).code, 0);
  EXPECT_LT(std::filesystem::file_size(at("long.html")), 2'000'000u);
  expect_good(at("long.html"), 400);
  if (!small_scale()) expect_good(at("long.html"), 1600);
}

// The test above can fail: a page that asks for something from elsewhere says so.
TEST_F(ReportBrowserTest, APageThatAsksForSomethingIsNoticed) {
  const std::string run = trained("run", 2);
  ASSERT_EQ(run_ebb({"report", run, "--out", at("page.html")}).code, 0);
  std::string page = read_file(at("page.html"));
  page.insert(page.rfind("</body>"), "<img src=\"http://127.0.0.1:9/x.png\">");
  write_file(at("page.html"), page);
  EXPECT_THAT(open(at("page.html"), 900).console, HasSubstr("Content Security Policy"));
}

}  // namespace
}  // namespace ebb::cli
