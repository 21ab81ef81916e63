#include "ebb/probe.h"

#include <chrono>
#include <ctime>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ebb/error.h"
#include "engine/disk_tier.h"
#include "engine/machine_profile.h"
#include "engine/settings.h"
#include "io/posix_file_system.h"
#include "io/text_file.h"
#include "kernels/cpu/isa.h"
#include "measure/probe/disk_rates.h"
#include "measure/probe/measure.h"
#include "plan/explain.h"

namespace ebb {
namespace {

// Found before the machine is measured: a minute's work must have somewhere to go.
std::filesystem::path file_of(const ProbeOptions& options, const std::string& device) {
  if (!options.out.empty()) return options.out;
  if (const auto kept = engine::kept_profile_path(device)) return *kept;
  throw ConfigError(
      "there is no folder to keep the profile in: neither XDG_CACHE_HOME nor HOME is a path; give "
      "--out FILE, and the same file to train and plan as --profile");
}

std::string describe(engine::Runtime& runtime) {
  return fmt::format(
      "device: {} ({})\n{}CPU threads: {}\nCPU instruction set: {} (set EBB_ISA to one of {})\n"
      "kernels: {}\n",
      runtime.device().kind(), runtime.device().name(), runtime.device().description(),
      runtime.threads(), kernels::isa_in_use(), fmt::join(kernels::isa_levels(), ", "),
      runtime.numerics().at("kernels").dump());
}

// The measured points behind the profile's few numbers, for people.
std::string link_table(const Json& tables) {
  std::string text =
      fmt::format("  {:<20}{:>10}{:>10}{:>10}  GB/s\n", "copies of", "up", "down", "both");
  for (const Json& row : tables.at("link_bytes_per_second")) {
    text +=
        fmt::format("  {:<20}{:>10.2f}{:>10.2f}{:>10.2f}\n",
                    format_bytes(row.at("bytes").get<Bytes>()), 1e-9 * row.at("up").get<double>(),
                    1e-9 * row.at("down").get<double>(), 1e-9 * row.at("both").get<double>());
  }
  const Json& beside = tables.at("beside_updates");
  text += fmt::format("  {:<20}{:>10.2f}{:>10.2f}{:>10}  updates at {:.2f}\n", "beside CPU updates",
                      1e-9 * beside.at("up").get<double>(), 1e-9 * beside.at("down").get<double>(),
                      "", 1e-9 * beside.at("updates").get<double>());
  return text + fmt::format("  host memory {:.2f} GB/s, reading and writing\n",
                            1e-9 * tables.at("host_memory_bytes_per_second").get<double>());
}

}  // namespace

ProbeResult probe(const ProbeOptions& options,
                  const std::function<void(const BenchProgress&)>& progress) {
  if (!(options.seconds >= 0 && options.seconds <= 3600)) {
    throw ConfigError(fmt::format("--seconds {}: expected 0 to 3600", options.seconds));
  }
  engine::Runtime runtime(options.device, engine::check_threads(options.threads));
  const std::filesystem::path file = file_of(options, runtime.device().kind());
  io::PosixFileSystem files;
  const auto folders = measure::disks_to_measure(options.disk, files);
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  // A drive takes its own time: this is a guess for the line that people see.
  const double of_disk = folders.empty() ? 0 : 0.3;
  const auto tell = [&](const std::string& now, double done) {
    progress({.now = now, .done = done, .seconds_left = spent() / done - spent()});
  };
  std::string notes;
  measure::Measured measured = measure::measure_machine(
      runtime, options.seconds,
      [&](const std::string& now, double done) { tell(now, done * (1 - of_disk)); });
  if (!folders.empty()) {
    const measure::DiskRates rates = measure::measure_disk(
        folders,
        [&](const std::string& now, double done) { tell(now, 1 - of_disk + done * of_disk); },
        [&](const std::string& note) { notes += note + "\n"; });
    measure::use_disk_rates(measured.profile, rates);
    measured.tables["disk"] = measure::to_json(rates);
  }
  Json json = plan::to_json(measured.profile);
  json["measured"] = {{"date", fmt::format("{:%F}", fmt::gmtime(std::time(nullptr)))},
                      {"seconds", spent()}};
  json["tables"] = measured.tables;
  json[engine::kFingerprintField] = engine::fingerprint(runtime);
  ProbeResult result{.text = {}, .json = json.dump(2) + "\n", .file = file.string()};
  result.text = fmt::format("{}{}Measured in {}, kept in {}:\n{}{}", describe(runtime), notes,
                            format_seconds(spent()), result.file,
                            plan::explain_speeds(measured.profile), link_table(measured.tables));
  // Replaced as a whole: a run that starts now reads the old profile or the new one.
  files.make_directories(io::parent_of(file));
  io::write_text_atomically(files, file, result.json);
  progress({.now = "done", .done = 1, .seconds_left = 0});
  return result;
}

}  // namespace ebb
