// Compiled once per instruction set (Highway includes this file again and again).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "measure/bench/streaming.cpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, as Highway asks.
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "measure/bench/streaming.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#ifndef EBB_ENGINE_BENCH_STREAMING_ONCE
#define EBB_ENGINE_BENCH_STREAMING_ONCE
namespace ebb::measure {

constexpr std::int64_t kLineWords = kLine / 8;

// The part of one plane that a thread walks in one go.
struct PlaneRange {
  std::uint64_t* at;
  std::int64_t lines;
  bool written;
  bool past_caches;
};

}  // namespace ebb::measure
#endif

HWY_BEFORE_NAMESPACE();
namespace ebb::measure::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Words = hn::CappedTag<std::uint64_t, kLineWords>;
using Word = hn::Vec<Words>;

enum class Access { read, write, write_past_caches };

// Goes over `lines` lines from `at` on; `word` is the mask, or what was read so far.
template <Access kAccess, bool kPrefetch>
HWY_INLINE Word walk(std::uint64_t* at, std::int64_t lines, Word word, std::int64_t ahead) {
  const Words d;
  for (std::uint64_t* const end = at + lines * kLineWords; at != end; at += kLineWords) {
    if (kPrefetch) hwy::Prefetch(at + ahead);
    for (std::size_t i = 0; i < kLineWords; i += hn::Lanes(d)) {
      const Word now = hn::Xor(hn::Load(d, at + i), word);
      if (kAccess == Access::read) word = now;
      if (kAccess == Access::write) hn::Store(now, d, at + i);
      if (kAccess == Access::write_past_caches) hn::Stream(now, d, at + i);
    }
  }
  return word;
}

template <bool kPrefetch>
std::uint64_t walk_planes(PlaneRange* planes, std::size_t count, std::int64_t runs,
                          std::int64_t ahead, std::uint64_t mask) {
  const Words d;
  const Word masks = hn::Set(d, mask);
  Word seen = hn::Zero(d);
  const auto go = [&](PlaneRange& plane, std::int64_t lines) HWY_ATTR {
    if (!plane.written) {
      seen = walk<Access::read, kPrefetch>(plane.at, lines, seen, ahead);
    } else if (plane.past_caches) {
      walk<Access::write_past_caches, kPrefetch>(plane.at, lines, masks, ahead);
    } else {
      walk<Access::write, kPrefetch>(plane.at, lines, masks, ahead);
    }
    plane.at += lines * kLineWords;
  };
  // What does not go evenly into the runs comes behind them.
  std::int64_t lines_a_run[kMostPlanes];
  for (std::size_t p = 0; p < count; ++p) lines_a_run[p] = planes[p].lines / runs;
  for (std::int64_t run = 0; run < runs; ++run) {
    for (std::size_t p = 0; p < count; ++p) go(planes[p], lines_a_run[p]);
  }
  for (std::size_t p = 0; p < count; ++p) go(planes[p], planes[p].lines - runs * lines_a_run[p]);
  // What went past the caches is in memory before the pass is over, and is so part of its time.
  hwy::FlushStream();
  HWY_ALIGN std::uint64_t lanes[kLineWords] = {};
  hn::Store(seen, d, lanes);
  std::uint64_t all = 0;
  for (const std::uint64_t lane : lanes) all ^= lane;
  return all;
}

std::uint64_t stream_range(PlaneRange* planes, std::size_t count, std::int64_t runs,
                           std::int64_t ahead, std::uint64_t mask) {
  return ahead > 0 ? walk_planes<true>(planes, count, runs, ahead, mask)
                   : walk_planes<false>(planes, count, runs, ahead, mask);
}

}  // namespace
}  // namespace ebb::measure::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ebb::measure {
namespace {

HWY_EXPORT(stream_range);

// Bytes of all planes together in one range: as long as what the kernels hand to a thread.
constexpr Bytes kRangeBytes = Bytes{512} << 10;

std::int64_t lines_of(const StreamedPlane& plane) { return (plane.bytes + kLine - 1) / kLine; }

// Written planes that follow each other in memory become one: the same bytes by fewer streams.
std::vector<StreamedPlane> joined(const std::vector<StreamedPlane>& planes) {
  std::vector<StreamedPlane> result;
  for (const StreamedPlane& plane : planes) {
    const bool follows = !result.empty() && result.back().written && plane.written &&
                         result.back().data + kLine * lines_of(result.back()) == plane.data;
    if (follows) {
      result.back().bytes = kLine * (lines_of(result.back()) + lines_of(plane));
    } else {
      result.push_back(plane);
    }
  }
  return result;
}

// The first `past_caches` of the written planes go past the caches.
std::vector<PlaneRange> whole(const std::vector<StreamedPlane>& planes, int past_caches) {
  std::vector<PlaneRange> result;
  for (const StreamedPlane& plane : planes) {
    result.push_back({.at = reinterpret_cast<std::uint64_t*>(plane.data),
                      .lines = lines_of(plane),
                      .written = plane.written,
                      .past_caches = plane.written && past_caches-- > 0});
  }
  return result;
}

}  // namespace

std::string StreamVariant::name() const {
  std::string text = joined ? "joined" : "side by side";
  text += fmt::format(", {} lines a run", run_lines);
  if (ahead > 0) text += fmt::format(", prefetch {}", ahead);
  if (planes_past_caches == 1) text += ", streams one";
  if (planes_past_caches > 1) text += ", streams all";
  if (one_range_a_thread) text += ", one range";
  return text;
}

std::vector<StreamVariant> stream_variants() {
  constexpr int all_planes = kMostPlanes;
  // Left out is what was slow wherever it was tried: long runs with prefetch, prefetch with all
  // planes past the caches, short runs of joined planes.
  std::vector<StreamVariant> variants = {
      {.run_lines = 4},
      {.run_lines = 4, .ahead = 512},
      {.run_lines = 4, .ahead = 1024},
      {.run_lines = 4, .planes_past_caches = 1},
      {.run_lines = 4, .ahead = 512, .planes_past_caches = 1},
      {.run_lines = 4, .ahead = 1024, .planes_past_caches = 1},
      {.run_lines = 4, .planes_past_caches = all_planes},
      {.run_lines = 64},
      {.run_lines = 64, .planes_past_caches = 1},
      {.run_lines = 64, .planes_past_caches = all_planes},
      {.joined = true, .run_lines = 64},
      {.joined = true, .run_lines = 64, .ahead = 512},
      {.joined = true, .run_lines = 64, .planes_past_caches = all_planes},
  };
  const std::size_t count = variants.size();
  for (std::size_t i = 0; i < count; ++i) {
    variants.push_back(variants[i]);
    variants.back().one_range_a_thread = true;
  }
  return variants;
}

std::uint64_t stream_pass(ThreadPool& pool, const std::vector<StreamedPlane>& planes,
                          const StreamVariant& variant, std::uint64_t mask) {
  const std::vector<PlaneRange> all =
      whole(variant.joined ? joined(planes) : planes, variant.planes_past_caches);
  std::int64_t lines = 0;
  for (const PlaneRange& plane : all) lines += plane.lines;
  const std::int64_t ranges =
      variant.one_range_a_thread ? pool.slots() : (lines * kLine + kRangeBytes - 1) / kRangeBytes;
  // Returned, so that no compiler can leave the reads out.
  std::atomic<std::uint64_t> seen{0};
  pool.parallel_for(ranges, [&](std::int64_t range, int) {
    PlaneRange parts[kMostPlanes];
    std::int64_t longest = 0;
    for (std::size_t p = 0; p < all.size(); ++p) {
      const std::int64_t from = all[p].lines * range / ranges;
      parts[p] = all[p];
      parts[p].at += from * kLineWords;
      parts[p].lines = all[p].lines * (range + 1) / ranges - from;
      longest = std::max(longest, parts[p].lines);
    }
    // By the longest plane: shorter ones go in as many, shorter runs, as a kernel walks them side
    // by side.
    const std::int64_t runs = std::max<std::int64_t>(1, longest / variant.run_lines);
    seen ^= HWY_DYNAMIC_DISPATCH(stream_range)(parts, all.size(), runs, variant.ahead / 8, mask);
  });
  return seen;
}

}  // namespace ebb::measure
#endif  // HWY_ONCE
