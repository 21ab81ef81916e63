#include "plan/alternatives.h"

#include <cmath>

#include <fmt/format.h>

#include "plan/search.h"

namespace ebb::plan {
namespace {

// Small steps from the plan that was found. With less memory the best plan may be far from it, so
// that is searched from the start as well.
constexpr int kPrograms = 50;
// What changes less than this is not worth a line.
constexpr double kNoticeable = 0.005;

class Finder {
 public:
  Finder(const Plan& plan, const FixedChoices& fixed) : plan_(plan), fixed_(fixed) {}

  void more_memory() {
    // About a twelfth of what there is, in round numbers.
    Bytes step = kMiB;
    while (step * 16 < plan_.limits[Tier::device]) step *= 2;
    for (const Bytes change : {step, -step}) {
      Limits limits = plan_.limits;
      limits[Tier::device] = (limits[Tier::device] + change) / kMiB * kMiB;
      const Bytes there_is = plan_.profile.device_memory;
      if (change > 0 && there_is > 0 && limits[Tier::device] > there_is) continue;
      add(fmt::format("--device-memory {}MiB", limits[Tier::device] / kMiB),
          fmt::format("{} {} device memory", format_bytes(step), change > 0 ? "more" : "less"),
          plan_.workload, fixed_, limits, plan_.profile);
    }
  }

  void other_sites() {
    if (fixed_.site || fixed_.host_fraction || fixed_.offload_fraction) return;
    const std::pair<Site, std::string> others[] = {{Site::resident, "no state leaves the device"},
                                                   {Site::stream, "all states streamed"},
                                                   {Site::host, "the CPU updates all"}};
    for (const auto& [site, note] : others) {
      FixedChoices fixed = fixed_;
      fixed.site = site;
      add(fmt::format("--states {}", name_of(site)), note, plan_.workload, fixed, plan_.limits,
          plan_.profile);
    }
  }

  void more_tokens() {
    Workload work = plan_.workload;
    work.micro_batches *= 4;
    add(fmt::format("--accumulate {}", work.micro_batches), "more tokens a step; other training",
        work, fixed_, plan_.limits, plan_.profile);
  }

  void variant(const Variant& other) {
    add(other.flags, "changes the numerics", other.workload, fixed_, plan_.limits, other.profile);
  }

  List<Alternative> take() { return std::move(found_); }

 private:
  void add(std::string flags, std::string note, const Workload& work, const FixedChoices& fixed,
           const Limits& limits, const Profile& profile) {
    SearchResult other =
        search(work, fixed, limits, profile, {.programs = kPrograms, .start = plan_.choices});
    if (limits[Tier::device] < plan_.limits[Tier::device]) {
      const SearchResult anew = search(work, fixed, limits, profile);
      if (anew.fits && (!other.fits || anew.step_seconds < other.step_seconds)) other = anew;
    }
    if (!other.fits) return;
    const double speed = static_cast<double>(work.tokens * work.micro_batches) /
                         other.step_seconds / plan_.tokens_per_second();
    const Bytes host = other.needs[Tier::host] - plan_.peak(Tier::host);
    if (std::abs(speed - 1) < kNoticeable && std::abs(host) < plan_.limits[Tier::host] / 64) return;
    found_.push_back({.flags = std::move(flags),
                      .note = std::move(note),
                      .choices = other.choices,
                      .speed = speed,
                      .device = other.needs[Tier::device] - plan_.peak(Tier::device),
                      .host = host});
  }

  const Plan& plan_;
  const FixedChoices& fixed_;
  List<Alternative> found_;
};

// "1.2 GiB more", "1.2 GiB less".
std::string difference(Bytes bytes) {
  if (bytes == 0) return "the same";
  return format_bytes(std::abs(bytes)) + (bytes > 0 ? " more" : " less");
}

}  // namespace

List<Alternative> alternatives_to(const Plan& plan, const FixedChoices& fixed,
                                  const List<Variant>& variants) {
  Finder finder(plan, fixed);
  finder.more_memory();
  finder.other_sites();
  for (const Variant& other : variants) finder.variant(other);
  finder.more_tokens();
  return finder.take();
}

std::string explain(const List<Alternative>& alternatives) {
  if (alternatives.empty()) return {};
  std::string text = "Alternatives, as predicted:\n";
  for (const Alternative& each : alternatives) {
    const double percent = std::abs(each.speed - 1) * 100;
    const std::string speed =
        percent < 0.5 ? "as fast"
                      : fmt::format("{:.0f}% {}", percent, each.speed > 1 ? "faster" : "slower");
    text += fmt::format("  {:<32}{:<12} host memory {:<15} {}\n", each.flags, speed,
                        difference(each.host), each.note);
  }
  return text;
}

}  // namespace ebb::plan
