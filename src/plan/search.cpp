#include "plan/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "plan/lower_bound.h"
#include "plan/training_program.h"

namespace ebb::plan {
namespace {

// Shares of all parameters are tried in steps of this, those on a disk in smaller ones.
constexpr int kShares = 64;
constexpr int kDiskShares = 512;
// Points of the grid from which small steps are taken.
constexpr std::size_t kStarts = 8;
constexpr std::int64_t kPassesOfBytes = 3;
// As many programs are built as have so many tasks together, but not fewer than some.
constexpr int kMostBuilt = 1 << 20;
constexpr int kLeastPrograms = 300;
// Steps go from this distance to the nearest.
constexpr int kFarthest = 8;

// What is searched: a value for each row of the table. The share that leaves the device is the
// least that fits, and `more`.
struct Point {
  List<std::int64_t> values;
  int more = 0;
  friend auto operator<=>(const Point&, const Point&) = default;
};

class Searcher {
 public:
  Searcher(const Workload& work, const FixedChoices& fixed, const Limits& limits,
           const Profile& profile, const SearchBudget& budget)
      : work_(budget.every_pass ? work : shortened(work, kMostPasses)),
        three_passes_(shortened(work, kPassesOfBytes)),
        left_out_(static_cast<double>(work.micro_batches - work_.micro_batches)),
        fixed_(fixed),
        limits_(limits),
        profile_(profile),
        budget_(budget),
        table_(budget.table),
        bound_(work, profile) {}

  SearchResult run() {
    if (is_hopeless()) {
      far_ = last_ = true;
      try_leanest();
      best_.programs = programs_;
      return best_;
    }
    if (budget_.start) try_start(*budget_.start);
    if (!best_.fits) try_grid();
    if (!best_.fits) {
      far_ = true;
      try_leanest();
      if (!best_.fits) try_grid();
    }
    if (!best_.fits && has_last_values()) {
      last_ = true;
      try_leanest();
      if (!best_.fits) try_grid();
    }
    for (const auto& [seconds, point] : starts()) take_small_steps(point, seconds);
    most_programs_ = all_programs_ * 7 / 8;
    if (best_.fits && !far_ && !nothing_to_gain()) {
      far_ = true;
      try_far_from(0, point_of(best_.choices), false);
      try_far_with_less(point_of(best_.choices));
      for (const auto& [seconds, point] : starts()) try_far_from(0, point, false);
    }
    if (best_.fits && !nothing_to_gain()) spend_spare_memory();
    best_.programs = programs_;
    return best_;
  }

 private:
  // When the norm is known, all weights, states and gradients of the step are somewhere: where the
  // tiers together cannot hold them, it does not matter what is where.
  bool is_hopeless() const {
    double room = 0;
    for (const Tier tier : work_.topology->all_tiers()) {
      room += static_cast<double>(limits_[tier] - work_.extra(tier));
    }
    const auto gradients = static_cast<double>(work_.parameters() * work_.gradient_bytes);
    return bound_.state_bytes() + bound_.weight_bytes() + gradients > room;
  }

  // Where the share that leaves the device is the user's, there is nothing to look for.
  std::optional<double> fixed_share() const {
    if (fixed_.site == Site::resident) return 0.0;
    if (fixed_.offload_fraction) return fixed_.offload_fraction;
    return fixed_.site ? std::optional(1.0) : std::nullopt;
  }

  Choices choices_of(const Point& point, int share) const {
    Choices choices{.state_home = fixed_.state_home, .below = fixed_.below};
    const double least =
        std::max(fixed_.host_fraction.value_or(0), fixed_.disk_fraction.value_or(0));
    choices.offload_fraction =
        fixed_share().value_or(std::max(static_cast<double>(share) / kShares, least));
    choices.disk_fraction = std::min(choices.offload_fraction, fixed_.disk_fraction.value_or(0));
    for (std::size_t row = 0; row < table_.size(); ++row) {
      table_[row].set(choices,
                      value_within(table_[row], work_, fixed_, choices, point.values[row]));
    }
    // Shares that the user gave are kept as they are.
    if (fixed_.host_fraction && fixed_.site != Site::resident) {
      choices.host_fraction = std::min(choices.offload_fraction, *fixed_.host_fraction);
    }
    return choices;
  }

  Point point_of(const Choices& choices) {
    Point point;
    for (const Choice& row : table_) {
      point.values.push_back(row.least_that_fits ? 0 : row.get(choices));
    }
    const int share = static_cast<int>(choices.offload_fraction * kShares + 0.5);
    point.more = std::max(0, share - least_share(point));
    return point;
  }

  void try_start(const Choices& choices) {
    Point point = point_of(choices);
    try_point(point);
    point.more = 0;
    try_point(point);
    for (std::size_t row = 0; row < table_.size(); ++row) {
      if (table_[row].spare == nullptr || is_fixed(table_[row], fixed_)) continue;
      point.values[row] = table_[row].grid(work_).front();
    }
    try_point(point);
  }

  using Tried = std::pair<double, Point>;

  // The best of the grid, one for each part that the CPU may have, with and without inputs in host
  // memory: they lie far apart.
  List<Tried> starts() {
    List<Tried> best;
    if (nothing_to_gain()) return best;
    std::sort(grid_.begin(), grid_.end());
    const auto part_of = [&](const Point& point) {
      const Choices choices = choices_of(point, kShares);
      return std::pair(choices.host_fraction, choices.host_inputs > 0);
    };
    for (const Tried& tried : grid_) {
      const bool new_part = std::none_of(best.begin(), best.end(), [&](const Tried& other) {
        return part_of(other.second) == part_of(tried.second);
      });
      if (new_part && best.size() < kStarts) best.push_back(tried);
    }
    return best;
  }

  void try_grid() {
    // First the plan that leaves nothing to be wished for.
    Point point;
    for (const Choice& row : table_) {
      point.values.push_back(row.ideal != nullptr ? row.ideal(work_) : row.grid(work_).front());
    }
    try_point(point);
    try_grid_from(0, point);
  }

  // The values that take the least memory, with every part that the CPU may have.
  void try_leanest() {
    Point point;
    for (std::size_t row = 0; row < table_.size(); ++row) {
      point.values.push_back(grid_values(row).back());
    }
    for (const std::int64_t part : grid_values(0)) {
      point.values[0] = part;
      try_point(point);
    }
  }

  // The best point with every set of far values in this row and those behind it: small steps from
  // there lead elsewhere.
  void try_far_from(std::size_t row, Point point, bool is_far) {
    if (row < table_.size()) {
      try_far_from(row + 1, point, is_far);
      if (table_[row].far == nullptr || is_given(row)) return;
      for (const std::int64_t value : table_[row].far(work_)) {
        point.values[row] = value;
        try_far_from(row + 1, point, true);
      }
    } else if (const auto seconds = is_far ? seconds_of_step(point) : std::nullopt) {
      take_small_steps(point, *seconds);
    }
  }

  // Far values cost time and leave memory: what that is worth shows where it is used at once, by
  // less of what is done for the sake of memory.
  void try_far_with_less(const Point& best) {
    for (std::size_t row = 0; row < table_.size(); ++row) {
      if (table_[row].ideal == nullptr || table_[row].far != nullptr || is_given(row)) continue;
      for (const std::int64_t part : {7, 6, 4}) {
        const std::int64_t value = best.values[row] * part / 8;
        if (value >= best.values[row]) continue;
        Point point = best;
        point.values[row] = value;
        try_far_from(0, point, false);
      }
    }
  }

  // Every value of this row's grid and of those behind it.
  void try_grid_from(std::size_t row, Point& point) {
    if (nothing_to_gain()) return;
    if (row == table_.size()) {
      for (const int more : {0, kShares}) {
        point.more = more;
        try_point(point);
      }
      return;
    }
    for (const std::int64_t value : grid_values(row)) {
      point.values[row] = value;
      try_grid_from(row + 1, point);
    }
  }

  Choice::Values grid_values(std::size_t row) const {
    if (is_given(row)) return {0};
    auto values = table_[row].grid(work_);
    // Where it comes to these, all else was tried.
    if (last_ && table_[row].last != nullptr) {
      if (auto last = table_[row].last(work_); !last.empty()) values = std::move(last);
    }
    if (!far_ || table_[row].far == nullptr) return values;
    const auto far = table_[row].far(work_);
    values.insert(values.end(), far.begin(), far.end());
    return values;
  }

  bool has_last_values() const {
    for (std::size_t row = 0; row < table_.size(); ++row) {
      if (table_[row].last != nullptr && !is_given(row) && !table_[row].last(work_).empty()) {
        return true;
      }
    }
    return false;
  }

  bool is_given(std::size_t row) const { return table_[row].given(fixed_).has_value(); }

  // Everything stays where it is and nothing is done twice.
  bool nothing_to_gain() const {
    const Choices& best = best_.choices;
    if (!best_.fits || best.offload_fraction > 0 || best.host_inputs > 0 ||
        best.streamed_weights > 0 || best.host_sums > 0) {
      return false;
    }
    Choices above = best_.choices;
    return std::all_of(table_.begin(), table_.end(), [&](const Choice& row) {
      return row.ideal == nullptr ||
             row.get(best_.choices) == value_within(row, work_, fixed_, above, row.ideal(work_));
    });
  }

  void try_point(const Point& point) {
    if (const auto seconds = seconds_of_step(point)) grid_.emplace_back(*seconds, point);
  }

  // So much more of host memory goes below it, as near as it can be told. First what moves least
  // for the room it leaves: states come and go once a step, 2 bytes for each; of M micro-batches
  // sums move at most 2 M, inputs 2 M, weights 2 M + 2. False where nothing more can go.
  bool send_below(Choices& choices, Bytes bytes) const {
    if (choices.below == Tier::host) return false;
    const auto wanted = static_cast<double>(bytes);
    const double away = std::max(choices.offload_fraction, choices.host_fraction);
    if (!fixed_.disk_fraction && choices.disk_fraction < away) {
      const double part = std::ceil(wanted / bound_.state_bytes() * kDiskShares) / kDiskShares;
      choices.disk_fraction = std::min(away, choices.disk_fraction + part);
      return true;
    }
    // One kind at a time: what it leaves is known only then.
    const auto send = [&](std::int64_t& value, std::int64_t most, bool fixed, double each) {
      if (fixed || value >= most || each <= 0) return false;
      value = std::min(most, value + static_cast<std::int64_t>(std::ceil(wanted / each)));
      return true;
    };
    const auto blocks = work_.blocks.count();
    const auto each = [&](double all) { return all / static_cast<double>(blocks); };
    const auto gradients =
        static_cast<double>(work_.parameters() * std::max(work_.gradient_bytes, work_.sum_bytes()));
    // What the CPU updates is gathered by the CPU.
    const std::int64_t sums = choices.host_fraction > 0 ? blocks : choices.host_sums;
    return send(choices.disk_sums, sums, fixed_.disk_sums.has_value(), each(gradients)) ||
           send(choices.disk_inputs, choices.host_inputs, fixed_.disk_inputs.has_value(),
                static_cast<double>(work_.input)) ||
           send(choices.disk_weights, choices.streamed_weights, fixed_.disk_weights.has_value(),
                each(bound_.weight_bytes()));
  }

  // The choices with as much below host memory as it takes for the rest to fit there.
  struct Placed {
    Choices choices;
    Limits needs;
  };
  const Placed& placed(const Point& point, int share) {
    Point key = point;
    key.more = share;
    const auto [found, fresh] = placed_.try_emplace(key);
    Placed& placed = found->second;
    if (!fresh) return placed;
    placed.choices = choices_of(point, share);
    placed.needs = barest(placed.choices);
    // Holes take a little, too.
    const Bytes room = limits_[Tier::host] - limits_[Tier::host] / 128;
    constexpr int tries = 10;
    for (int i = 0; i < tries && placed.needs[Tier::host] > limits_[Tier::host]; ++i) {
      // What lies below is full already: more of it helps nobody.
      const Tier below = placed.choices.below;
      if (below != Tier::host && placed.needs[below] > limits_[below]) break;
      if (!send_below(placed.choices, placed.needs[Tier::host] - room)) break;
      placed.needs = barest(placed.choices);
    }
    return placed;
  }

  // Bytes that the barest order holds, holes aside.
  Limits barest(const Choices& choices) {
    ++programs_;
    const Program program = build_training(three_passes_, choices, {});
    // Short programs are tried in no time, and more of them.
    if (programs_ == 1) {
      const auto tasks = static_cast<int>(program.tasks.size()) + 1;
      all_programs_ = std::min(budget_.programs, std::max(kLeastPrograms, kMostBuilt / tasks));
      most_programs_ = all_programs_ * 3 / 8;
    }
    Limits needs;
    Bytes missing = 0;
    for (const Tier tier : program.topology->all_tiers()) {
      needs[tier] = peak_alive(program, tier) + beside_arena(program, three_passes_, tier);
      missing += std::max<Bytes>(0, needs[tier] - limits_[tier]);
    }
    if (tasks_of_step(program, three_passes_) > kMostTasks) {
      missing = std::max<Bytes>(missing, 1);
      needs[Tier::host] = std::max(needs[Tier::host], limits_[Tier::host] + 1);
    }
    if (!best_.fits && missing < missing_) {
      missing_ = missing;
      best_.choices = choices;
    }
    return needs;
  }

  // The least share that fits, -1 where none does. More off the device needs less of it and more of
  // where it goes, nearly in proportion: what nothing and everything need says where to look first.
  int least_share(const Point& point) {
    Point key = point;
    key.more = 0;
    const auto known = least_.find(key);
    if (known != least_.end()) return known->second;
    int& least = least_[key] = -1;
    const Limits none = placed(point, 0).needs;
    if (within(none)) return least = 0;
    if (fixed_share() || none[Tier::device] <= limits_[Tier::device]) return least;
    const Limits all = placed(point, kShares).needs;
    if (all[Tier::device] > limits_[Tier::device]) return least;
    const auto wanted = static_cast<double>(none[Tier::device] - limits_[Tier::device]);
    const auto most = static_cast<double>(none[Tier::device] - all[Tier::device]);
    int low = 1, high = within(all) ? kShares - 1 : kShares;
    if (within(all)) least = kShares;
    int next = static_cast<int>(std::ceil(kShares * wanted / most));
    for (int tries = 0; low <= high; ++tries) {
      const int share = next >= low && next <= high && tries < 3 ? next : (low + high) / 2;
      const Limits needs = placed(point, share).needs;
      const bool short_of_device = needs[Tier::device] > limits_[Tier::device];
      if (within(needs)) least = share;
      (short_of_device ? low : high) = short_of_device ? share + 1 : share - 1;
      next = short_of_device ? share + 1 : share - 1;
    }
    return least;
  }

  bool within(const Limits& needs) const {
    return std::ranges::all_of(work_.topology->all_tiers(),
                               [&](Tier tier) { return needs[tier] <= limits_[tier]; });
  }

  // Seconds that a step takes, or nothing if it does not fit or cannot be the fastest.
  std::optional<double> seconds_of_step(const Point& point) {
    const auto known = tried_.find(point);
    if (known != tried_.end()) return known->second;
    return tried_[point] = try_out(point);
  }

  std::optional<double> try_out(const Point& point) {
    // Where nothing fitted yet the grid is tried to its end: a refusal must be sure.
    if (!best_.fits && far_) before_ = programs_;
    if (programs_ - before_ >= most_programs_) return std::nullopt;
    if (best_.fits && bound_(choices_of(point, 0)) >= best_.step_seconds * kWorthIt) {
      return std::nullopt;
    }
    const int least = least_share(point);
    if (least < 0) return std::nullopt;
    // Holes may ask for a little more than the barest order does.
    constexpr int tries = 4;
    const int first = std::min(least + point.more, kShares);
    for (int share = first; share <= kShares && share < first + tries; ++share) {
      Choices choices = choices_of(point, share);
      if (best_.fits && bound_(choices) >= best_.step_seconds * kWorthIt) return std::nullopt;
      choices = placed(point, share).choices;
      ++programs_;
      auto plan = try_plan_with(work_, choices, limits_, profile_);
      if (!plan && placed(point, share).needs[Tier::host] > limits_[Tier::host] / 8 * 7 &&
          send_below(choices, limits_[Tier::host] / 32)) {
        ++programs_;
        plan = try_plan_with(work_, choices, limits_, profile_);
      }
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
  List<Point> neighbours(const Point& at, int distance) const {
    List<Point> all;
    for (std::size_t row = 0; row < table_.size(); ++row) {
      if (table_[row].neighbours == nullptr || is_given(row)) continue;
      const Choices choices = choices_of(at, kShares);
      auto values = table_[row].neighbours(work_, at.values[row], distance);
      if (distance == kFarthest) {
        const auto all = grid_values(row);
        values.insert(values.end(), all.begin(), all.end());
      }
      for (const std::int64_t value : values) {
        if (value < table_[row].least(work_) || value > table_[row].most(work_, choices)) continue;
        all.push_back(at);
        all.back().values[row] = value;
      }
    }
    for (const int more : {at.more + distance, at.more - distance, 0, kShares}) {
      if (fixed_share() || more < 0 || more > kShares) continue;
      if (distance < kFarthest && std::abs(more - at.more) != distance) continue;
      all.push_back(at);
      all.back().more = more;
    }
    return all;
  }

  void take_small_steps(Point at, double seconds) {
    for (const int distance : {kFarthest, 3, 1}) {
      for (bool moved = true; moved;) {
        moved = false;
        for (const Point& other : neighbours(at, distance)) {
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

  void spend_spare_memory() {
    most_programs_ = all_programs_;
    for (std::size_t row = 0; row < table_.size(); ++row) {
      if (table_[row].spare == nullptr || is_given(row)) continue;
      Point point = point_of(best_.choices);
      for (const std::int64_t value : table_[row].spare(work_, best_.choices)) {
        point.values[row] = value;
        seconds_of_step(point);
      }
    }
  }

  const Workload work_;
  const Workload three_passes_;
  const double left_out_;  // micro-batches
  const FixedChoices& fixed_;
  const Limits& limits_;
  const Profile& profile_;
  const SearchBudget& budget_;
  const std::span<const Choice> table_;
  const LowerBound bound_;
  int programs_ = 0;
  int before_ = 0;  // programs before the first that fits, where the near grid had none
  int all_programs_ = budget_.programs;
  int most_programs_ = all_programs_ * 3 / 8;  // the rest is for what comes later
  SearchResult best_;
  bool far_ = false;   // whether the grid has its far values, too
  bool last_ = false;  // whether it has the last ones, and these alone
  Bytes missing_ = std::numeric_limits<Bytes>::max();
  List<Tried> grid_;
  std::map<Point, int> least_;
  std::map<Point, Placed> placed_;  // `more` is the share
  std::map<Point, std::optional<double>> tried_;
};

}  // namespace

SearchResult search(const Workload& work, const FixedChoices& fixed, const Limits& limits,
                    const Profile& profile, const SearchBudget& budget) {
  return Searcher(work, fixed, limits, profile, budget).run();
}

}  // namespace ebb::plan
