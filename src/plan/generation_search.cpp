#include "plan/generation_search.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "plan/explain.h"

namespace ebb::plan {
namespace {

constexpr std::int64_t kLongestSlice = 2048;
constexpr std::int64_t kShortestSlice = 64;

class Search {
 public:
  Search(const GenerationTask& task, const FixedGenerationChoices& fixed, const Limits& limits,
         const Profile& profile)
      : task_(task), fixed_(fixed), limits_(limits), profile_(profile) {}

  GenerationPlan run() {
    const Workload& any = task_.work(task_.slices.front(), false).slice;
    most_ = most_streamed(any);
    layers_ = streamed_layers(any, most_);
    slices_ = fixed_.slice ? List<std::int64_t>{*fixed_.slice} : task_.slices;
    // What is on the device is computed nowhere faster.
    if (fixed_.streamed_weights.value_or(0) == 0) try_resident();
    if (!best_ && fixed_.streamed_weights.value_or(1) != 0) try_streamed();
    if (!best_) {
      predict(*closest_, work_of(closest_->choices));
      return std::move(*closest_);
    }
    refine();
    return std::move(*best_);
  }

 private:
  // The user's words stand, within what is possible.
  GenerationChoices with_fixed(GenerationChoices c) const {
    const auto set = [](std::int64_t& value, const std::optional<std::int64_t>& given,
                        std::int64_t most) {
      value = std::clamp<std::int64_t>(given.value_or(value), 0, most);
    };
    c.below = fixed_.below;
    c.cache = fixed_.cache.value_or(c.cache);
    c.depth = std::clamp(fixed_.depth.value_or(c.depth), Choices::kLeastDepth, Choices::kMostDepth);
    set(c.streamed_weights, fixed_.streamed_weights, most_);
    const std::int64_t left =
        streamed_layers(task_.work(slices_.front(), false).slice, c.streamed_weights);
    set(c.disk_weights, fixed_.disk_weights, fixed_.below == Tier::host ? 0 : left);
    set(c.attention_resident, fixed_.attention_resident, left > 0 ? 1 : 0);
    set(c.cpu_blocks, fixed_.cpu_blocks, left);
    set(c.cpu_prompt_blocks, fixed_.cpu_prompt_blocks, left);
    return c;
  }

  const GenerationWork& work_of(const GenerationChoices& c) const {
    return task_.work(c.slice, c.streamed_weights > 0);
  }

  // Whether it fits; keeps it if it is the best so far, or misses least.
  bool attempt(const GenerationChoices& wanted) {
    const GenerationChoices c = with_fixed(wanted);
    for (const auto& [known, fitted] : tried_) {
      if (known == c) return fitted;
    }
    GenerationPlan plan = lay_out_generation(work_of(c), c, limits_, profile_);
    tried_.emplace_back(c, fits(plan.slice));
    if (!fits(plan.slice)) {
      note_closest(std::move(plan));
      return false;
    }
    predict(plan, work_of(c));
    const double seconds = plan.seconds(task_.tokens);
    if (!best_ || seconds < best_seconds_) {
      best_ = std::move(plan);
      best_seconds_ = seconds;
    }
    return true;
  }

  void note_closest(GenerationPlan plan) {
    if (best_) return;
    const Bytes missing = missing_bytes(plan.slice);
    if (closest_ && missing >= closest_missing_) return;
    closest_ = std::move(plan);
    closest_missing_ = missing;
  }

  void try_resident() {
    for (const std::int64_t slice : slices_) attempt({.slice = slice});
  }

  // With what goes below host memory as little as host memory allows.
  bool attempt_with_disk(GenerationChoices c) {
    if (attempt(c)) return true;
    if (fixed_.below == Tier::host || fixed_.disk_weights) return false;
    std::int64_t low = 0,
                 high = streamed_layers(task_.work(c.slice, false).slice, c.streamed_weights);
    c.disk_weights = high;
    if (high == 0 || !attempt(c)) return false;
    while (high - low > 1) {
      c.disk_weights = (low + high) / 2;
      (attempt(c) ? high : low) = c.disk_weights;
    }
    return true;
  }

  // The fewest blocks that must leave the device; nothing if all of them are not enough.
  std::optional<std::int64_t> fewest(GenerationChoices c) {
    if (fixed_.streamed_weights) {
      return attempt_with_disk(c) ? std::optional(*fixed_.streamed_weights) : std::nullopt;
    }
    const auto with = [&](std::int64_t streamed) {
      c.streamed_weights = streamed;
      return attempt_with_disk(c);
    };
    std::int64_t low = 0, high = most_;
    if (!with(high)) {
      // The ends take more host memory than they free of the device's, now and then.
      for (high = most_ - 1; high > 0 && !with(high); high -= std::max<std::int64_t>(1, high / 8)) {
      }
      if (high <= 0) return std::nullopt;
    }
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (with(middle) ? high : low) = middle;
    }
    return high;
  }

  void try_streamed() {
    const auto ways = [](const auto& given, auto all) {
      if (given) all.assign(1, *given);
      return all;
    };
    const auto attention = ways(fixed_.attention_resident, List<std::int64_t>{0, 1});
    const auto caches = ways(fixed_.cache, List<CacheHome>{CacheHome::mixed, CacheHome::device});
    const auto tokens = ways(fixed_.cpu_blocks, List<std::int64_t>{layers_, 0});
    const auto prompts = ways(fixed_.cpu_prompt_blocks, List<std::int64_t>{0, layers_});
    const auto all = [&](CacheHome cache) {
      for (const std::int64_t slice : slices_) {
        for (const std::int64_t stays : attention) {
          for (const std::int64_t token : tokens) {
            for (const std::int64_t prompt : prompts) {
              fewest({.attention_resident = stays,
                      .cpu_blocks = token,
                      .cpu_prompt_blocks = prompt,
                      .cache = cache,
                      .slice = slice});
            }
          }
        }
      }
    };
    for (const CacheHome cache : caches) all(cache);
    // Rows that come up for every token: that is worth it where little else has to leave.
    if (fixed_.cache) return;
    if (!fixed_.streamed_weights) {
      for (const std::int64_t slice : slices_) attempt({.cache = CacheHome::host, .slice = slice});
    }
    if (!best_) all(CacheHome::host);
  }

  // Neighbours of the best.
  void refine() {
    if (best_->choices.streamed_weights == 0) return;
    // What is on its way may be worth another block that leaves.
    const GenerationChoices start = best_->choices;
    for (const std::int64_t depth : {3, 4, 8}) {
      GenerationChoices c = start;
      c.depth = depth;
      bool fitted = fixed_.depth.has_value();
      for (int more = 0; more < 3 && !fitted; ++more) {
        c.streamed_weights = std::min(most_, start.streamed_weights + more);
        fitted = attempt_with_disk(c);
      }
    }
    if (fixed_.cpu_blocks) return;
    for (const std::int64_t eighths : {7, 6, 5, 4}) {
      GenerationChoices c = best_->choices;
      c.cpu_blocks = layers_ * eighths / 8;
      attempt(c);
    }
  }

  const GenerationTask& task_;
  const FixedGenerationChoices& fixed_;
  const Limits& limits_;
  const Profile& profile_;
  std::int64_t most_ = 0, layers_ = 0;
  List<std::int64_t> slices_;
  List<std::pair<GenerationChoices, bool>> tried_;
  std::optional<GenerationPlan> best_, closest_;
  double best_seconds_ = 0;
  Bytes closest_missing_ = 0;
};

}  // namespace

GenerationPlan search_generation(const GenerationTask& task, const FixedGenerationChoices& fixed,
                                 const Limits& limits, const Profile& profile) {
  return Search(task, fixed, limits, profile).run();
}

List<std::int64_t> slices_of(std::int64_t prompt) {
  List<std::int64_t> slices;
  std::int64_t parts = (prompt + kLongestSlice - 1) / kLongestSlice;
  for (;; parts *= 4) {
    const std::int64_t even = (prompt + parts - 1) / parts;
    const std::int64_t whole = (even + kShortestSlice - 1) / kShortestSlice * kShortestSlice;
    const std::int64_t slice = std::min(prompt, whole);
    if (slices.empty() || slices.back() != slice) slices.push_back(slice);
    if (slice <= kShortestSlice) return slices;
  }
}

}  // namespace ebb::plan
