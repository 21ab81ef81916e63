// Pages of folders that somebody made up.
#include "report/page.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"
#include "report/picture.h"

namespace ebb::report {
namespace {

using testing::HasSubstr;
using testing::Not;

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string page_of(const std::vector<RunData>& runs) {
  std::string page;
  write_page(runs, "a title", [&](std::string_view text) { page += text; });
  return page;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += what.size()) {
    ++found;
  }
  return found;
}

Json good_step() {
  return {{"kind", "measured"},
          {"step", 4},
          {"seconds", 0.5},
          {"tick_seconds", 5e-7},
          {"names", {"forward block 0"}},
          {"kinds", {"forward"}},
          {"lanes", {{{"name", "compute"}, {"busy_seconds", 0.4}, {"spans", {{0, 100, 0, 0}}}}}},
          {"memory",
           {{{"tier", "device"},
             {"limit", 100},
             {"arena", 60},
             {"beside", 10},
             {"purposes", {"weights"}},
             {"ticks", {0, 10}},
             {"bytes", {{50, 60}}}}}}};
}

TEST(ReportPage, OfHostileFilesHasNothingOfTheirsButText) {
  const std::string evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>";
  io::TempFolder folder;
  io::PosixFileSystem files;
  Json step = good_step();
  step["names"][0] = evil;
  step["kinds"][0] = evil;
  step["lanes"][0]["name"] = evil;
  step["memory"][0]["tier"] = evil;
  step["memory"][0]["purposes"][0] = evil;
  const Json plan = {{"model", evil},
                     {"words", evil},
                     {"flags", evil},
                     {"settings", {{evil, evil}}},
                     {"tiers", {{{"name", evil}, {"limit", 5}}}},
                     {"lanes", {{{"name", evil}, {"busy_seconds", 1.0}}}},
                     {"step", step}};
  write_file(folder / "log.jsonl", "{\"step\":1,\"loss\":2.0,\"memory\":{\"" + std::string("<b>") +
                                       "\":1}}\n" + evil + "\n");
  write_file(folder / "plan.json", plan.dump());
  write_file(folder / "step.json", Json{{"step", step}}.dump());
  RunData run = read_run(files, folder.path());
  run.name = evil;
  const std::string page = page_of({run, run});
  const std::string empty = page_of({RunData{}, RunData{}});
  EXPECT_EQ(count(page, "<script"), count(empty, "<script"));
  EXPECT_EQ(count(page, "</script"), count(empty, "</script"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;script&gt;alert(1)"));
}

TEST(ReportPage, NeedsNothingFromElsewhere) {
  const std::string page = page_of({RunData{}});
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* outside : {"https:", "@import", "url(", "src=", "fetch(", "import("}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  // The one address is a name: that of SVG.
  EXPECT_EQ(count(page, "http:"), count(page, "http://www.w3.org/2000/svg"));
}

TEST(ReportPage, TakesOverOnlyWhatFitsTogether) {
  ASSERT_TRUE(checked_step(good_step()).is_object());
  EXPECT_EQ(checked_step(good_step()).at("lanes")[0].at("spans").size(), 1u);
  const auto spans_with = [](Json span) {
    Json step = good_step();
    step["lanes"][0]["spans"].push_back(std::move(span));
    return checked_step(step).at("lanes")[0].at("spans").size();
  };
  EXPECT_EQ(spans_with({5, 5, 0, 0, 3}), 2u);
  EXPECT_EQ(spans_with({5, 5, 1, 0}), 1u) << "a name that is not there";
  EXPECT_EQ(spans_with({5, -5, 0, 0}), 1u);
  EXPECT_EQ(spans_with({5, 5, 0, "x"}), 1u);
  EXPECT_EQ(spans_with({5, 5}), 1u);
  EXPECT_EQ(spans_with("x"), 1u);
  Json step = good_step();
  step["memory"][0]["bytes"][0].push_back(1);
  EXPECT_TRUE(checked_step(step).at("memory").empty()) << "more bytes than ticks";
  step = good_step();
  step["seconds"] = "long";
  EXPECT_TRUE(checked_step(step).is_null());
  for (const Json& other : {Json(), Json(5), Json::array(), Json("x")}) {
    EXPECT_TRUE(checked_step(other).is_null());
  }
}

TEST(ReportPage, SaysWhatOfAFolderCannotBeRead) {
  io::TempFolder folder;
  io::PosixFileSystem files;
  EXPECT_THROW(read_run(files, folder.path()), ConfigError);
  EXPECT_THROW(read_run(files, folder / "nothing"), ConfigError);
  write_file(folder / "log.jsonl", "{\"step\":1,\"loss\":2.0}\nrubbish\n");
  write_file(folder / "plan.json", "{");
  write_file(folder / "step.json", "[]");
  const RunData run = read_run(files, folder.path());
  EXPECT_EQ(run.log.steps(), 1);
  EXPECT_EQ(run.notes.size(), 2u);
  EXPECT_THAT(page_of({run}), HasSubstr("1 lines of log.jsonl"));
}

}  // namespace
}  // namespace ebb::report
