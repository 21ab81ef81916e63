// The process beside the books: what the system and the driver say that is held, compared with what
// the ledgers counted. What is outside the limits is code, libraries, stacks, a driver's context.
#pragma once

#include <optional>
#include <string>

#include "base/json.h"
#include "engine/runtime.h"
#include "engine/training_run.h"

namespace ebb::engine {

struct ProcessReport {
  Bytes resident_at_start = 0;  // before the run took anything
  Bytes resident_peak = 0;
  Bytes counted = 0;  // on the host, and on the cpu device's device tier, which is host memory too
  // Bytes of a GPU that the run counted; nothing on the cpu device.
  std::optional<Bytes> device_counted{};
  std::optional<Bytes> device_gone{};  // free memory that is gone since the start, of all programs

  // What no limit counts. 0 where more is counted than was ever touched.
  Bytes outside() const { return std::max<Bytes>(0, resident_peak - counted); }
};

// To be asked while the run's memory is still held.
ProcessReport report_process(const TrainingRun& run, const Runtime& runtime);

Json to_json(const ProcessReport& report);
// One line for people, two with a GPU.
std::string explain(const ProcessReport& report);

}  // namespace ebb::engine
