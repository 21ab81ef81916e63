#include "plan/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "plan/training_program.h"

namespace ebb::plan {
namespace {

// Shares of all parameters are tried in steps of this, the CPU's part of what leaves in sixteenths.
constexpr int kShares = 64;
constexpr int kHostShares = 16;
// A step must be shorter by this to be worth another plan.
constexpr double kWorthIt = 0.998;
// From how many points of the grid small steps are taken.
constexpr std::size_t kStarts = 4;
constexpr std::int64_t kPassesOfBytes = 3;

// What is searched. The share that leaves the device is the least that fits, and `more`.
struct Point {
  std::int64_t recompute = 0;
  std::int64_t inputs = 0;
  std::int64_t chunk = 0;
  int host = 0;  // the CPU's part of what leaves
  int more = 0;
  std::int64_t kept = 0;
  std::int64_t depth = Choices::kLeastDepth;
  friend auto operator<=>(const Point&, const Point&) = default;
};

// Below what no step with some choices can be, by what each lane has to do at least.
class Floor {
 public:
  Floor(const Workload& work, const Profile& profile) : work_(work), profile_(profile) {
    Cost all;
    for (const Block& block : work.blocks) {
      all += block.forward;
      all += block.backward;
    }
    passes_ = static_cast<double>(work.micro_batches);
    parameters_ = static_cast<double>(work.parameters());
    state_ = static_cast<double>(work.state_bytes(work.parameters()));
    model_seconds_ = passes_ * seconds(all);
    const auto gradient = static_cast<double>(work.gradient_bytes);
    Cost device;
    device.bytes = 2 * (state_ + parameters_ * static_cast<double>(work.weight_bytes)) +
                   parameters_ * gradient + parameters_ * sum_traffic(work);
    device_seconds_ = seconds(device);
  }

  double operator()(const Choices& choices) const {
    const double streamed = (choices.offload_fraction - choices.host_fraction) * state_;
    const double by_host = choices.host_fraction * parameters_;
    const auto weight = static_cast<double>(work_.weight_bytes);
    const auto gradient = static_cast<double>(work_.gradient_bytes);
    const double inputs = static_cast<double>(choices.host_inputs * work_.input) * passes_;
    Cost again;
    for (std::int64_t layer = 0; layer < choices.recompute_blocks; ++layer) {
      again += work_.blocks[static_cast<std::size_t>(layer) + 1].recompute;
    }
    Cost spared;
    for (std::int64_t layer = 1; layer <= choices.kept_blocks; ++layer) {
      spared += work_.blocks[work_.blocks.size() - 1 - static_cast<std::size_t>(layer)].made_again;
    }
    const double up = (streamed + by_host * weight + inputs) / profile_.up_bytes_per_second;
    const double down =
        (streamed + by_host * gradient * passes_ + inputs) / profile_.down_bytes_per_second;
    const double host =
        by_host * (2 * (state_ / parameters_ + weight) + gradient) / profile_.host_bytes_per_second;
    const double compute = model_seconds_ + passes_ * (seconds(again) - seconds(spared)) +
                           (1 - choices.host_fraction) * device_seconds_;
    return std::max({compute, up, down, host});
  }

 private:
  // Of all micro-batches, for each parameter.
  static double sum_traffic(const Workload& work) {
    const std::int64_t last = work.micro_batches - 1;
    double bytes = static_cast<double>(work.sum_traffic(last));
    if (last > 1) bytes += static_cast<double>(work.sum_traffic(1));
    if (last > 2) bytes += static_cast<double>((last - 2) * work.sum_traffic(2));
    return bytes;
  }
  double seconds(const Cost& cost) const {
    double sum = 0;
    for (const ProfileField& field : profile_fields()) sum += seconds_of(cost, field, profile_);
    return sum;
  }

  const Workload& work_;
  const Profile& profile_;
  double passes_ = 0, parameters_ = 0, state_ = 0, model_seconds_ = 0, device_seconds_ = 0;
};

class Searcher {
 public:
  Searcher(const Workload& work, const Wishes& wishes, const Limits& limits, const Profile& profile,
           const Effort& effort)
      : work_(effort.every_pass ? work : shortened(work, kMostPasses)),
        three_passes_(shortened(work, kPassesOfBytes)),
        left_out_(static_cast<double>(work.micro_batches - work_.micro_batches)),
        wishes_(wishes),
        limits_(limits),
        profile_(profile),
        effort_(effort),
        floor_(work, profile),
        layers_(static_cast<std::int64_t>(work.blocks.size()) - 2) {}

  Found run() {
    if (effort_.start) {
      Point point = point_of(*effort_.start);
      try_point(point);
      point.more = 0;
      try_point(point);
      if (!wishes_.kept_blocks) {
        point.kept = 0;
        try_point(point);
      }
    }
    if (!best_.fits) try_grid();
    for (const auto& [seconds, point] : starts()) take_small_steps(point, seconds);
    if (best_.fits && !nothing_to_gain()) {
      most_programs_ = effort_.programs;
      if (!wishes_.kept_blocks) keep_more();
      if (!wishes_.depth) go_deeper();
    }
    best_.programs = programs_;
    return best_;
  }

 private:
  // Where the share that leaves the device is the user's, there is nothing to look for.
  std::optional<double> fixed_share() const {
    if (wishes_.site == Site::resident) return 0.0;
    if (wishes_.offload_fraction) return wishes_.offload_fraction;
    return wishes_.site ? std::optional(1.0) : std::nullopt;
  }
  bool host_is_free() const { return !wishes_.site && !wishes_.host_fraction; }

  Choices choices_of(const Point& point, int share) const {
    const double fraction = fixed_share().value_or(
        std::max(static_cast<double>(share) / kShares, wishes_.host_fraction.value_or(0)));
    const double host = wishes_.site == Site::host ? fraction
                        : host_is_free()           ? fraction * point.host / kHostShares
                                                   : wishes_.host_fraction.value_or(0);
    return {.offload_fraction = fraction,
            .host_fraction = std::min(fraction, host),
            .state_home = wishes_.state_home,
            .chunk_parameters = point.chunk,
            .recompute_blocks = point.recompute,
            .host_inputs = point.inputs,
            .kept_blocks = std::min(point.kept, layers_ - point.recompute),
            .depth = wishes_.depth.value_or(point.depth)};
  }

  Point point_of(const Choices& choices) {
    const double part =
        choices.offload_fraction > 0 ? choices.host_fraction / choices.offload_fraction : 0;
    Point point{.recompute = choices.recompute_blocks,
                .inputs = choices.host_inputs,
                .chunk = choices.chunk_parameters,
                .host = static_cast<int>(part * kHostShares + 0.5),
                .kept = choices.kept_blocks,
                .depth = choices.depth};
    const int share = static_cast<int>(choices.offload_fraction * kShares + 0.5);
    point.more = std::max(0, share - least_share(point));
    return point;
  }

  using Tried = std::pair<double, Point>;

  // The best of the grid, one for each part that the CPU may have: they lie far apart.
  std::vector<Tried> starts() {
    std::vector<Tried> best;
    if (nothing_to_gain()) return best;
    std::sort(grid_.begin(), grid_.end());
    for (const Tried& tried : grid_) {
      const bool new_part = std::none_of(best.begin(), best.end(), [&](const Tried& other) {
        return other.second.host == tried.second.host;
      });
      if (new_part && best.size() < kStarts) best.push_back(tried);
    }
    return best;
  }

  static std::vector<std::int64_t> counts(const std::optional<std::int64_t>& wish,
                                          std::int64_t layers, bool parts) {
    if (wish) return {std::min(*wish, layers)};
    std::vector<std::int64_t> all = {0, layers};
    if (parts) all = {0, layers / 8, layers / 4, layers / 2, layers};
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  void try_grid() {
    const std::int64_t chunk = wishes_.chunk_parameters.value_or(default_chunk_parameters(work_));
    const std::vector<int> hosts =
        host_is_free() ? std::vector<int>{0, 4, 8, 12, 16} : std::vector<int>{0};
    const std::int64_t kept = std::min(wishes_.kept_blocks.value_or(0), layers_);
    // First the plan that leaves nothing to be wished for.
    if (!wishes_.kept_blocks) {
      try_point({.recompute = counts(wishes_.recompute_blocks, layers_, false).front(),
                 .inputs = counts(wishes_.host_inputs, layers_, false).front(),
                 .chunk = chunk,
                 .kept = layers_});
    }
    for (const std::int64_t inputs : counts(wishes_.host_inputs, layers_, false)) {
      for (const std::int64_t recompute : counts(wishes_.recompute_blocks, layers_, true)) {
        for (const int host : hosts) {
          for (const int more : {0, kShares}) {
            if (nothing_to_gain()) return;
            try_point({recompute, inputs, chunk, host, more, kept});
          }
        }
      }
    }
  }

  // Everything stays where it is and nothing is done twice.
  bool nothing_to_gain() const {
    return best_.fits && best_.choices.offload_fraction == 0 &&
           best_.choices.recompute_blocks == 0 && best_.choices.host_inputs == 0 &&
           best_.choices.kept_blocks == std::min(wishes_.kept_blocks.value_or(layers_), layers_);
  }

  void try_point(const Point& point) {
    if (const auto seconds = seconds_of_step(point)) grid_.emplace_back(*seconds, point);
  }

  // Whether the barest order fits, holes aside. Where it does not, which tier is short.
  struct Fit {
    bool fits = false;
    bool short_of_device = false;
  };
  Fit barest(const Choices& choices) {
    ++programs_;
    const Program program = build_training(three_passes_, choices, {});
    Bytes missing = 0;
    Fit fit;
    for (const Tier tier : program.topology->all_tiers()) {
      const Bytes over =
          peak_alive(program, tier) + beside_arena(program, three_passes_, tier) - limits_[tier];
      if (over <= 0) continue;
      missing += over;
      fit.short_of_device = fit.short_of_device || tier == Tier::device;
    }
    if (tasks_of_step(program, three_passes_) > kMostTasks) missing = std::max<Bytes>(missing, 1);
    fit.fits = missing == 0;
    if (best_.fits || missing >= missing_) return fit;
    missing_ = missing;
    best_.choices = choices;
    return fit;
  }

  // More off the device needs less of it and more of the host. Neighbours need about the same.
  int least_share(const Point& point) {
    if (fixed_share()) return barest(choices_of(point, 0)).fits ? 0 : -1;
    Point key = point;
    key.more = 0;
    const auto known = least_.find(key);
    if (known != least_.end()) return known->second;
    int low = 0, high = kShares, found = -1;
    int next = last_share_;
    while (low <= high) {
      const int share = next >= low && next <= high ? next : (low + high) / 2;
      const Fit fit = barest(choices_of(point, share));
      if (fit.fits) found = share;
      if (!fit.fits && fit.short_of_device) {
        low = share + 1;
        next = share + 1;
      } else {
        high = share - 1;
        next = share - 1;
      }
      if (share != last_share_) next = -1;
    }
    if (found >= 0) last_share_ = found;
    return least_[key] = found;
  }

  // What a step takes, or nothing if it does not fit or cannot be the fastest.
  std::optional<double> seconds_of_step(const Point& point) {
    const auto known = tried_.find(point);
    if (known != tried_.end()) return known->second;
    return tried_[point] = try_out(point);
  }

  std::optional<double> try_out(const Point& point) {
    // Where nothing fitted yet the grid is tried to its end: a refusal must be sure.
    if (programs_ >= most_programs_ && (best_.fits || effort_.start)) return std::nullopt;
    if (best_.fits && floor_(choices_of(point, 0)) >= best_.step_seconds * kWorthIt) {
      return std::nullopt;
    }
    const int least = least_share(point);
    if (least < 0) return std::nullopt;
    // Holes may ask for a little more than the barest order does.
    constexpr int tries = 4;
    const int first = std::min(least + point.more, kShares);
    for (int share = first; share <= kShares && share < first + tries; ++share) {
      const Choices choices = choices_of(point, share);
      if (best_.fits && floor_(choices) >= best_.step_seconds * kWorthIt) return std::nullopt;
      ++programs_;
      const auto plan = try_plan_with(work_, choices, limits_, profile_);
      if (!plan && !fixed_share()) continue;
      if (!plan) return std::nullopt;
      const double seconds =
          plan->prediction.step_seconds + left_out_ * plan->prediction.pass_seconds;
      if (!best_.fits || seconds < best_.step_seconds * kWorthIt) {
        best_.fits = true;
        best_.step_seconds = seconds;
        best_.choices = choices;
        for (const Tier tier : work_.topology->all_tiers()) best_.needs[tier] = plan->peak(tier);
      }
      return seconds;
    }
    return std::nullopt;
  }

  // The neighbours of a point at some distance, along what is free.
  std::vector<Point> neighbours(const Point& at, int scale) const {
    std::vector<Point> all;
    const auto add = [&](auto member, std::int64_t by, std::int64_t most) {
      for (const std::int64_t step : {by, -by}) {
        Point other = at;
        const std::int64_t value = static_cast<std::int64_t>(at.*member) + step;
        if (value < 0 || value > most) continue;
        other.*member = static_cast<std::remove_reference_t<decltype(other.*member)>>(value);
        all.push_back(other);
      }
    };
    const std::int64_t blocks = std::max<std::int64_t>(1, layers_ * scale / 64);
    if (!wishes_.recompute_blocks) add(&Point::recompute, blocks, layers_);
    if (host_is_free()) add(&Point::host, std::max(1, scale / 4), kHostShares);
    if (!fixed_share()) add(&Point::more, scale, kShares);
    if (!wishes_.host_inputs) add(&Point::inputs, blocks, layers_);
    if (!wishes_.chunk_parameters) {
      for (const std::int64_t chunk : {at.chunk / 2, at.chunk * 2}) {
        const std::int64_t usual = default_chunk_parameters(work_);
        const std::int64_t least = std::max(usual / 2, work_.parameters() / kMostChunks);
        Point other = at;
        other.chunk = chunk;
        if (chunk >= least && chunk <= usual * 4) all.push_back(other);
      }
    }
    return all;
  }

  void take_small_steps(Point at, double seconds) {
    for (const int scale : {8, 3, 1}) {
      for (bool moved = true; moved;) {
        moved = false;
        for (const Point& other : neighbours(at, scale)) {
          const auto its = seconds_of_step(other);
          if (!its || *its >= seconds * kWorthIt) continue;
          at = other;
          seconds = *its;
          moved = true;
          break;
        }
      }
    }
  }

  // What keeping is worth is little, and so tried last: for what the plan leaves free, or where it
  // is worth more than that states leave for it.
  void keep_more() {
    Point point = point_of(best_.choices);
    const std::int64_t most = layers_ - point.recompute;
    for (const std::int64_t kept : {most, most / 2, most / 4, most / 8}) {
      point.kept = kept;
      seconds_of_step(point);
    }
  }

  // Spare room lets more of what moves be on its way at once.
  void go_deeper() {
    Point point = point_of(best_.choices);
    for (const std::int64_t depth : {4, 8, 16}) {
      point.depth = depth;
      seconds_of_step(point);
    }
  }

  const Workload work_;
  const Workload three_passes_;
  const double left_out_;  // micro-batches
  const Wishes& wishes_;
  const Limits& limits_;
  const Profile& profile_;
  const Effort& effort_;
  const Floor floor_;
  const std::int64_t layers_;
  int programs_ = 0;
  int most_programs_ = effort_.programs * 7 / 8;  // the rest is for what comes last
  int last_share_ = 0;
  Found best_;
  Bytes missing_ = std::numeric_limits<Bytes>::max();
  std::vector<Tried> grid_;
  std::map<Point, int> least_;
  std::map<Point, std::optional<double>> tried_;
};

}  // namespace

Found search(const Workload& work, const Wishes& wishes, const Limits& limits,
             const Profile& profile, const Effort& effort) {
  return Searcher(work, wishes, limits, profile, effort).run();
}

}  // namespace ebb::plan
