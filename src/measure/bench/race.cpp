#include "measure/bench/race.h"

#include <algorithm>
#include <chrono>

#include "base/median.h"

namespace ebb::measure {
namespace {

// So many of the variants stay in the race, as the first look at all of them is a short one and may
// mistake the fastest.
constexpr std::size_t kRivals = 3;
constexpr int kLooks = 3;

template <class Body>
double seconds_of(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Race::Race(std::function<void()> pass, std::vector<StreamedPlane> planes)
    : pass_(std::move(pass)), planes_(std::move(planes)) {}

std::vector<StreamVariant> Race::find_rivals(ThreadPool& pool, double seconds) const {
  struct Tried {
    StreamVariant variant;
    double seconds;
  };
  std::vector<Tried> tried;
  for (const StreamVariant& variant : stream_variants()) tried.push_back({variant, 1e9});
  double spent = 0;
  // The best of a few looks: a single one may have been disturbed. The first look is taken whatever
  // it costs.
  for (int look = 0; look < kLooks && (look == 0 || spent < seconds); ++look) {
    for (Tried& each : tried) {
      const double took = seconds_of([&] { stream_pass(pool, planes_, each.variant, 0); });
      each.seconds = std::min(each.seconds, took);
      spent += took;
    }
  }
  std::sort(tried.begin(), tried.end(),
            [](const Tried& a, const Tried& b) { return a.seconds < b.seconds; });
  std::vector<StreamVariant> best;
  for (std::size_t i = 0; i < kRivals; ++i) best.push_back(tried[i].variant);
  return best;
}

void Race::set_rivals(std::vector<StreamVariant> rivals) {
  rivals_.clear();
  for (const StreamVariant& variant : rivals) rivals_.push_back({variant, {}});
  pass_();  // the first pass after other memory was used is no measurement
}

void Race::round(ThreadPool& pool) {
  for (Rival& rival : rivals_) {
    // Neighbours in time: what slows the machine down slows both.
    const double kernel = seconds_of(pass_);
    const double ceiling = seconds_of([&] { stream_pass(pool, planes_, rival.variant, 0); });
    seconds_.push_back(kernel);
    rival.shares.push_back(ceiling / kernel);
  }
}

double Race::bytes_moved() const {
  double bytes = 0;
  for (const StreamedPlane& plane : planes_) {
    bytes += static_cast<double>(plane.bytes) * (plane.written ? 2 : 1);
  }
  return bytes;
}

double Race::seconds() const { return median(seconds_); }

const Race::Rival& Race::fastest() const {
  return *std::min_element(rivals_.begin(), rivals_.end(), [](const Rival& a, const Rival& b) {
    return median(a.shares) < median(b.shares);
  });
}

double Race::share_of_ceiling() const { return median(fastest().shares); }
std::string Race::ceiling() const { return fastest().variant.name(); }

}  // namespace ebb::measure
