#include "engine/process_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/process_memory.h"

namespace ebb::engine {

ProcessReport report_process(const TrainingRun& run, const Runtime& runtime) {
  using plan::Tier;
  ProcessReport report{.resident_at_start = runtime.at_start().resident,
                       .resident_peak = process_memory().peak,
                       .counted = run.ledger(Tier::host).peak()};
  const std::optional<Bytes> free = runtime.free_device_memory();
  if (!free) {
    report.counted += run.ledger(Tier::device).peak();
    return report;
  }
  report.device_counted = run.ledger(Tier::device).peak();
  report.device_gone = runtime.at_start().free_device.value_or(*free) - *free;
  return report;
}

Json to_json(const ProcessReport& report) {
  Json json = {{"resident_at_start", report.resident_at_start},
               {"resident_peak", report.resident_peak},
               {"counted", report.counted},
               {"outside", report.outside()}};
  if (report.device_counted) json["device_counted"] = *report.device_counted;
  if (report.device_gone) json["device_gone"] = *report.device_gone;
  return json;
}

std::string explain(const ProcessReport& report) {
  std::string text = fmt::format(
      "Memory of the process: {} resident at most; {} counted against the limits, {} outside them "
      "(code, libraries, stacks; {} before the run took any)",
      format_bytes(report.resident_peak), format_bytes(report.counted),
      format_bytes(report.outside()), format_bytes(report.resident_at_start));
  if (report.device_counted && report.device_gone) {
    const Bytes more = *report.device_gone - *report.device_counted;
    text += fmt::format(
        "\nDevice memory: counted {}, the driver says {} {} is gone (libraries' code "
        "and contexts, other programs)",
        format_bytes(*report.device_counted), format_bytes(std::abs(more)),
        more >= 0 ? "more" : "less");
  }
  return text;
}

}  // namespace ebb::engine
