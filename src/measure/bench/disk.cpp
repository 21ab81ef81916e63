#include <chrono>

#include <fmt/format.h>

#include "ebb/bench.h"
#include "io/posix_file_system.h"
#include "measure/probe/disk_rates.h"

namespace ebb {

BenchResult bench_disk(const std::vector<DiskFolder>& disk,
                       const std::function<void(const BenchProgress&)>& progress) {
  using Clock = std::chrono::steady_clock;
  io::PosixFileSystem files;
  const auto folders = measure::disks_to_measure(disk, files);
  const auto start = Clock::now();
  const auto tell = [&](const std::string& now, double done) {
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    progress({.now = now, .done = done, .seconds_left = done > 0 ? spent / done - spent : 0});
  };
  std::string notes;
  const measure::DiskRates rates =
      measure::measure_disk(folders, tell, [&](const std::string& note) { notes += note + "\n"; });
  BenchResult result{.text = notes, .json = to_json(rates).dump(2)};
  const auto row = [&](const char* what, double reads, double writes) {
    const auto number = [](double value) {
      return value > 0 ? fmt::format("{:.2f}", 1e-9 * value) : std::string("-");
    };
    result.text += fmt::format("  {:<20}{:>10}{:>10}\n", what, number(reads), number(writes));
  };
  result.text += fmt::format("GB/s by {}, with checksums\n  {:<20}{:>10}{:>10}\n", rates.queue, "",
                             "read", "written");
  row("alone", rates.read, rates.write);
  row("both at once", rates.read_beside, rates.write_beside);
  return result;
}

}  // namespace ebb
