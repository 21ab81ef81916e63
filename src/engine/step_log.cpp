#include "engine/step_log.h"

#include <string>
#include <system_error>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::engine {

StepLog::StepLog(std::filesystem::path path, std::int64_t step) : path_(std::move(path)) {
  std::string kept;
  std::ifstream before(path_);
  for (std::string line; step > 0 && std::getline(before, line);) {
    const Json json = Json::parse(line, nullptr, false);
    const auto number = json.find("step");
    if (number == json.end() || !number->is_number_integer() || *number > step) break;
    kept += line + '\n';
  }
  before.close();
  // Written beside the old one, which is replaced at once: emptied in place, a run that is killed
  // here would lose the steps it keeps. The stream goes on in the file under its new name.
  const std::filesystem::path fresh = path_.string() + ".partial";
  file_.open(fresh, std::ios::trunc);
  file_ << kept << std::flush;
  check();
  std::error_code error;
  std::filesystem::rename(fresh, path_, error);
  if (error) file_.setstate(std::ios::failbit);
  check();
}

void StepLog::add(const StepReport& report, double seconds) {
  Json line = {{"step", report.step}, {"loss", report.loss},
               {"norm", report.norm}, {"learning_rate", report.learning_rate},
               {"seconds", seconds},  {"tokens_per_second", report.tokens_per_second}};
  if (report.share_of_light) line["share_of_light"] = *report.share_of_light;
  write(line);
}

void StepLog::add_validation(std::int64_t step, double loss, std::int64_t tokens) {
  write({{"step", step}, {"validation_loss", loss}, {"validation_tokens", tokens}});
}

void StepLog::write(const Json& line) {
  file_ << line.dump() << std::endl;
  check();
}

void StepLog::check() const {
  if (file_) return;
  throw IoError(fmt::format(
      "cannot write '{}': free space on that disk, check the folder's permissions, and go on with "
      "--resume",
      path_.string()));
}

}  // namespace ebb::engine
