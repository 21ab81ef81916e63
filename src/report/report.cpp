#include "ebb/report.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "io/posix_file_system.h"
#include "io/text_file.h"
#include "report/page.h"
#include "report/run_data.h"

namespace ebb {
namespace {

void write_to(io::FileSystem& files, const std::string& out, const std::string& title,
              const std::vector<report::RunData>& runs) {
  const std::filesystem::path path(out);
  if (out.empty() || files.is_directory(path)) {
    throw ConfigError(fmt::format("'{}' is a folder; give the path of a file for the page", out));
  }
  if (!files.exists(io::parent_of(path))) files.make_directories(io::parent_of(path));
  io::write_pieces_atomically(files, path,
                              [&](io::TextSink sink) { report::write_page(runs, title, sink); });
}

}  // namespace

void write_report(const std::vector<std::string>& runs, const std::string& out) {
  io::PosixFileSystem files;
  std::vector<report::RunData> all;
  for (const std::string& run : runs) all.push_back(report::read_run(files, run));
  if (all.empty()) throw ConfigError("a report needs the folder of a run");
  const std::string title =
      all.size() == 1 ? "Run " + all.front().name : fmt::format("{} runs compared", all.size());
  write_to(files, out, title, all);
}

void write_plan_report(const Plan& plan, const std::string& title, const std::string& out) {
  io::PosixFileSystem files;
  write_to(files, out, "Plan of " + title, {report::data_of_plan(title, plan.json)});
}

}  // namespace ebb
