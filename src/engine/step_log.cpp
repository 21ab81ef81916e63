#include "engine/step_log.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>

#include "base/json.h"
#include "ebb/error.h"
#include "io/text_file.h"
#include "report/csv.h"
#include "report/run_data.h"
#include "report/tensorboard.h"

namespace ebb::engine {

namespace {

// A line that a crash cut off is none.
bool is_of_steps_to(std::int64_t last, std::string_view line) {
  try {
    const Json json = parse_json(line, "");
    const auto number = json.find("step");
    return number != json.end() && number->is_number_unsigned() &&
           number->get<std::uint64_t>() <= static_cast<std::uint64_t>(last);
  } catch (const FormatError&) {
    return false;
  }
}

double wall_seconds() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) return "host";
  // It becomes part of a file's name.
  std::string name = host.data();
  std::replace(name.begin(), name.end(), '/', '_');
  return name.empty() ? "host" : name;
}

// An earlier part of the run has a file of its own, which stays.
std::unique_ptr<report::LogFile> open_events(io::FileSystem& files,
                                             const std::filesystem::path& folder, std::int64_t step,
                                             const Note& note) {
  files.make_directories(folder);
  const double now = wall_seconds();
  const std::string name = report::events_file_name(now, host_name(), ::getpid());
  return std::make_unique<report::LogFile>(
      files, folder / name, report::events_header(now) + report::restart_event(now, step + 1),
      note);
}

}  // namespace

// Steps behind the checkpoint are made again, and logged again.
std::string_view kept_lines(std::string_view log, std::int64_t step) {
  std::size_t end = 0;
  while (end < log.size()) {
    const std::size_t line_end = std::min(log.find('\n', end), log.size());
    if (!is_of_steps_to(step, log.substr(end, line_end - end))) break;
    end = std::min(line_end + 1, log.size());
  }
  return log.substr(0, end);
}

StepLog::StepLog(io::FileSystem& files, const std::filesystem::path& folder, std::int64_t step,
                 std::span<const LogFormat> formats, const Note& note) {
  const std::filesystem::path path = folder / report::kLogName;
  std::string kept;
  if (step > 0 && files.exists(path)) {
    kept = kept_lines(io::read_text(files, path, std::numeric_limits<Bytes>::max()), step);
    if (!kept.empty() && kept.back() != '\n') kept += '\n';
  }
  lines_ = std::make_unique<report::LogFile>(files, path, kept, note);
  for (const LogFormat format : formats) {
    if (format == LogFormat::csv) {
      csv_ =
          std::make_unique<report::LogFile>(files, folder / "log.csv", report::csv_of(kept), note);
    } else {
      events_ = open_events(files, folder / "tensorboard", step, note);
    }
  }
}

void StepLog::add(const StepReport& report, double seconds) {
  report::LogLine line{.step = report.step,
                       .loss = report.loss,
                       .norm = report.norm,
                       .learning_rate = report.learning_rate,
                       .seconds = seconds,
                       .tokens_per_second = report.tokens_per_second,
                       .utilization = report.utilization};
  for (const TierMemory& tier : report.memory) line.memory.emplace_back(tier.tier, tier.most);
  write(line);
}

void StepLog::add_validation(std::int64_t step, double loss, std::int64_t tokens) {
  write({.step = step, .validation_loss = loss, .validation_tokens = tokens});
}

void StepLog::write(const report::LogLine& line) {
  lines_->append(to_json(line).dump() + '\n');
  if (csv_) csv_->append(csv_row(line));
  if (events_) events_->append(scalars_event(wall_seconds(), line));
}

}  // namespace ebb::engine
