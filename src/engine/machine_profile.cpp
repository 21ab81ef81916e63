#include "engine/machine_profile.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/cache_folder.h"
#include "base/machine.h"
#include "base/printable.h"
#include "device/cuda_support.h"
#include "ebb/error.h"
#include "ebb/version.h"
#include "engine/numerics_key.h"
#include "files/json_file.h"
#include "kernels/cpu/isa.h"
#include "plan/machines.h"

namespace ebb::engine {
namespace {

constexpr std::string_view kHow = "`ebb probe` measures this machine, once";

void use(Runtime& runtime, plan::Profile profile) {
  profile.device_memory = runtime.memory().device;
  profile.host_memory = runtime.memory().host;
  runtime.use_profile(std::move(profile));
}

// What was measured on another machine was not on this one.
void mark_foreign(plan::Profile& profile) {
  const auto mark = [](plan::Figure& figure) { figure.source += ", on another machine"; };
  for (const plan::ProfileField& field : plan::profile_fields()) mark(profile.*field.figure);
  for (auto& [variant, figures] : profile.variants) {
    for (auto& [name, figure] : figures) mark(figure);
  }
}

// "threads was 8 and is 4": the first that differs, and how many more.
std::string difference(const Json& stored, const Json& now) {
  const std::vector<KeyDifference> all = compare_keys(stored, now);
  if (all.empty()) return "";
  std::string text = fmt::format("{} was {} and is {}", printable(all[0].field, 200),
                                 printable(all[0].stored, 200), all[0].given);
  if (all.size() > 1) text += fmt::format(", and {} more", all.size() - 1);
  return text;
}

}  // namespace

plan::Profile find_machine(io::FileSystem& files, const std::string& machine) {
  if (!files.exists(machine)) return plan::machine(machine);
  return plan::parse_profile(files::read_json(files, machine), machine);
}

Json fingerprint(Runtime& runtime) {
  Json json = {{"ebb", kVersion},
               {"device", runtime.device().name()},
               {"processor", processor_name()},
               {"processors", usable_cpus()},
               {"threads", runtime.threads()},
               {"memory", usable_memory()},
               {"isa", kernels::isa_in_use()},
               {"kernels", runtime.numerics().at("kernels")}};
  if (runtime.device().kind() == "cuda") {
    const device::CudaDescription gpu = device::describe_cuda();
    json["gpu"] = {
        {"memory", gpu.memory}, {"driver", gpu.driver_version}, {"runtime", gpu.runtime_version}};
  }
  return json;
}

std::optional<std::filesystem::path> kept_profile_path(const std::string& device) {
  const auto folder = cache_folder();
  if (!folder) return std::nullopt;
  return *folder / fmt::format("profile-{}.json", device);
}

std::string load_profile(io::FileSystem& files, Runtime& runtime, const std::string& path) {
  const std::string kind = runtime.device().kind();
  if (!path.empty()) {
    const Json json = files::read_json(files, path);
    plan::Profile profile = plan::parse_profile(json, path);
    if (profile.device != kind) {
      throw ConfigError(fmt::format("--profile {}: it is of a {} device, but this run's is {}",
                                    path, profile.device, kind));
    }
    const std::string other =
        difference(json.value(kFingerprintField, Json::object()), fingerprint(runtime));
    if (!other.empty()) mark_foreign(profile);
    use(runtime, std::move(profile));
    return fmt::format("Speeds are those of {}{}", path,
                       other.empty() ? "" : ", of another machine: " + other);
  }
  const auto kept = kept_profile_path(kind);
  if (!kept || !files.exists(*kept)) {
    return fmt::format("Speeds are rules of thumb: {}", kHow);
  }
  try {
    const Json json = files::read_json(files, *kept);
    plan::Profile profile = plan::parse_profile(json, kept->string());
    const std::string other =
        difference(json.value(kFingerprintField, Json::object()), fingerprint(runtime));
    if (!other.empty()) {
      return fmt::format("Speeds are rules of thumb: {} is stale ({}); {}", kept->string(), other,
                         kHow);
    }
    use(runtime, std::move(profile));
    return fmt::format("Speeds were measured: {}", kept->string());
  } catch (const Error& error) {
    // A cache that cannot be read must not stop a run.
    return fmt::format("Speeds are rules of thumb: {}; {}", error.what(), kHow);
  }
}

}  // namespace ebb::engine
