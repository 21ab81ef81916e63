#include "engine/step_log.h"

#include <fstream>
#include <span>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"

namespace ebb::engine {

StepLog::StepLog(io::FileSystem& files, std::filesystem::path path, std::int64_t step, Note note)
    : note_(std::move(note)) {
  std::string kept;
  std::ifstream before(path);
  for (std::string line; step > 0 && std::getline(before, line);) {
    const Json json = Json::parse(line, nullptr, false);
    const auto number = json.find("step");
    if (number == json.end() || !number->is_number_integer() || *number > step) break;
    kept += line + '\n';
  }
  before.close();
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
  if (report.share_of_light) line["share_of_light"] = *report.share_of_light;
  write(line);
}

void StepLog::add_validation(std::int64_t step, double loss, std::int64_t tokens) {
  write({{"step", step}, {"validation_loss", loss}, {"validation_tokens", tokens}});
}

void StepLog::write(const Json& line) {
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
