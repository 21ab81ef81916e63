// A machine's profile: what `ebb probe` writes and plans are made with.
#include <cmath>

#include "base/json.h"
#include "fuzz/target.h"
#include "plan/profile.h"

namespace ebb::fuzz {
namespace {

// As for any JSON. A variant of a short name holds a figure with its source, and the round trip
// holds all of it several times.
constexpr Bytes kBytesPerByte = 120;

plan::Profile read(std::string_view text) {
  return plan::parse_profile(parse_json(text, "profile.json"), "profile.json");
}

void check_figure(const plan::Figure& figure) {
  require(std::isfinite(figure.value) && figure.value > 0, "a speed is a number above 0");
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kBytesPerByte, [](std::string_view text) {
    const plan::Profile profile = read(text);
    require(text.find('\0') == std::string_view::npos, "nothing is hidden behind a zero byte");
    require(profile.device == "cpu" || profile.device == "cuda", "a device is one of two");
    require(profile.cores > 0 && profile.device_memory >= 0 && profile.host_memory >= 0,
            "a machine has cores and no negative memory");
    for (const plan::ProfileField& field : plan::profile_fields()) {
      check_figure(profile.*field.figure);
    }
    for (const auto& [variant, figures] : profile.variants) {
      for (const auto& [name, figure] : figures) check_figure(figure);
      plan::with_variant(profile, variant);
    }
    for (const plan::Shared& shared : profile.shared) {
      check_figure(shared.capacity);
      for (const double wants : shared.wants) {
        require(std::isfinite(wants) && wants >= 0, "a lane wants nothing negative");
      }
    }
    const std::string written = plan::to_json(profile).dump();
    require(plan::to_json(read(written)).dump() == written,
            "a profile survives writing and reading");
  });
}
