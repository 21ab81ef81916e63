#include "engine/step_log.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "io/text_file.h"

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

StepLog::StepLog(io::FileSystem& files, std::filesystem::path path, std::int64_t step, Note note)
    : note_(std::move(note)) {
  std::string kept;
  if (step > 0 && files.exists(path)) {
    kept = kept_lines(io::read_text(files, path, std::numeric_limits<Bytes>::max()), step);
    if (!kept.empty() && kept.back() != '\n') kept += '\n';
  }
  // Written beside the old one, which is replaced at once: emptied in place, a run that is killed
  // here would lose the steps it keeps. Later lines go into the same file under its new name.
  const std::filesystem::path fresh = path.string() + ".partial";
  file_ = files.create(fresh);
  file_->write(0, std::as_bytes(std::span(kept)));
  size_ = static_cast<Bytes>(kept.size());
  files.rename(fresh, path);
}

void StepLog::add(const StepReport& report, double seconds) {
  Json line = {{"step", report.step}, {"loss", report.loss},
               {"norm", report.norm}, {"learning_rate", report.learning_rate},
               {"seconds", seconds},  {"tokens_per_second", report.tokens_per_second}};
  if (report.utilization) line["utilization"] = *report.utilization;
  write(line);
}

void StepLog::add_validation(std::int64_t step, double loss, std::int64_t tokens) {
  write({{"step", step}, {"validation_loss", loss}, {"validation_tokens", tokens}});
}

void StepLog::write(const Json& line) {
  // A full disk is no reason to stop: lines are kept and written with the next one.
  unwritten_ += line.dump() + '\n';
  try {
    file_->write(size_, std::as_bytes(std::span(unwritten_)));
  } catch (const IoError& error) {
    if (!std::exchange(told_, true)) {
      note_(fmt::format("The log has to wait, training goes on: {}", error.what()));
    }
    return;
  }
  size_ += static_cast<Bytes>(unwritten_.size());
  unwritten_.clear();
  told_ = false;
}

}  // namespace ebb::engine
