#include "engine/step_log.h"

#include <string>

#include "base/json.h"

namespace ebb::engine {

StepLog::StepLog(const std::filesystem::path& path, std::int64_t step) {
  std::string kept;
  std::ifstream before(path);
  for (std::string line; step > 0 && std::getline(before, line);) {
    const Json json = Json::parse(line, nullptr, false);
    if (!json.is_object() || json.value("step", step + 1) > step) break;
    kept += line + '\n';
  }
  before.close();
  file_.open(path, std::ios::trunc);
  file_ << kept << std::flush;
}

void StepLog::add(const StepReport& report, double seconds) {
  file_ << Json{{"step", report.step}, {"loss", report.loss},
                {"norm", report.norm}, {"learning_rate", report.learning_rate},
                {"seconds", seconds},  {"tokens_per_second", report.tokens_per_second}}
               .dump()
        << std::endl;
}

}  // namespace ebb::engine
