#include "measure/bench/reading.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "base/machine.h"
#include "base/seconds_since.h"
#include "base/to_size.h"
#include "kernels/optimizer_ops.h"
#include "measure/probe/timing.h"

namespace ebb::measure {
namespace {

using Clock = std::chrono::steady_clock;

// Several times what caches hold, but a small part of the machine's memory.
Bytes host_bytes(double seconds) {
  if (seconds == 0) return kMiB;
  const Bytes wanted = std::max(4 * largest_cache(), 256 * kMiB);
  return std::min(wanted, std::max(kMiB, usable_memory() / 16)) / kLine * kLine;
}

// The best of the first look at all ways stay in, as that look is short and may mistake them.
constexpr std::size_t kBest = 3;

}  // namespace

std::string ReadWay::name() const {
  std::string text = fmt::format("{} stream{}, {} lines a run", streams, streams == 1 ? "" : "s",
                                 variant.run_lines);
  if (variant.ahead > 0) text += fmt::format(", prefetch {}", variant.ahead);
  if (variant.one_range_a_thread) text += ", one range";
  return text;
}

std::vector<ReadWay> read_ways() {
  std::vector<ReadWay> ways;
  for (const int streams : {1, 2, 4, 8}) {
    for (const Bytes ahead : {0, 512, 2048}) {
      for (const bool one_range : {false, true}) {
        // A single stream has no turns; where there are several, long ones are as pages are.
        for (const std::int64_t lines : {4, 64}) {
          if (streams == 1 && lines == 4) continue;
          ways.push_back(
              {.streams = streams,
               .variant = {.run_lines = lines, .ahead = ahead, .one_range_a_thread = one_range}});
        }
      }
    }
  }
  return ways;
}

std::uint64_t read_pass(ThreadPool& pool, std::span<std::byte> memory, const ReadWay& way) {
  const Bytes lines = static_cast<Bytes>(memory.size()) / kLine;
  std::vector<StreamedPlane> planes;
  for (int i = 0; i < way.streams; ++i) {
    const Bytes first = lines * i / way.streams, end = lines * (i + 1) / way.streams;
    planes.push_back(
        {.data = memory.data() + first * kLine, .bytes = (end - first) * kLine, .written = false});
  }
  return stream_pass(pool, planes, way.variant, 0);
}

ReadRate host_read_rate(engine::Runtime& runtime, double seconds) {
  const auto memory = runtime.device().allocate_host(host_bytes(seconds));
  std::byte* const data = memory->data();
  const Bytes bytes = memory->bytes();
  // Pages are there, near the threads that touched them first; not all zeros, which a machine may
  // keep once.
  constexpr Bytes page = 4 * kKiB;
  runtime.pool().parallel_for((bytes + page - 1) / page, [&](std::int64_t i, int) {
    const Bytes length = std::min(page, bytes - i * page);
    std::fill_n(data + i * page, length, static_cast<std::byte>(i % 251 + 1));
  });
  std::uint64_t seen = 0;
  const auto seconds_of = [&](const ReadWay& way) {
    const auto start = Clock::now();
    seen ^= read_pass(runtime.pool(), {data, to_size(bytes)}, way);
    return seconds_since(start);
  };
  struct Tried {
    ReadWay way;
    double seconds = 0;
  };
  const auto start = Clock::now();
  std::vector<Tried> tried;
  for (const ReadWay& way : read_ways()) tried.push_back({way, seconds_of(way)});
  const auto faster = [](const Tried& a, const Tried& b) { return a.seconds < b.seconds; };
  std::sort(tried.begin(), tried.end(), faster);
  tried.resize(kBest);
  do {
    for (Tried& each : tried) each.seconds = std::min(each.seconds, seconds_of(each.way));
  } while (seconds_since(start) < seconds);
  const Tried& best = *std::min_element(tried.begin(), tried.end(), faster);
  return {static_cast<double>(bytes) / best.seconds, best.way.name()};
}

ReadRate device_read_rate(engine::Runtime& runtime, double seconds) {
  device::Device& device = runtime.device();
  if (device.kind() == "cpu") return host_read_rate(runtime, seconds);
  // Far more than a GPU's caches hold.
  const Bytes half =
      seconds == 0 ? kMiB : std::clamp(runtime.memory().device / 8, kMiB, 512 * kMiB) / kMiB * kMiB;
  const auto memory = device.allocate_device(2 * half);
  const std::int64_t values = 2 * half / size_of(DType::bf16);
  const auto sums =
      device.allocate_device(kernels::norm_blocks(values) * static_cast<Bytes>(sizeof(double)));
  const auto stream = device.create_stream(device::StreamKind::compute, "reading");
  stream->submit([&] { stream->fill(memory->data(), 0x3c, 2 * half); });
  stream->synchronize();
  // Passes of some milliseconds, so that starting and waiting are lost in them.
  const PassLength length{.all = seconds / 2, .pass = 0.01};
  auto ops = runtime.device_optimizer().ops({.stream = stream.get()});
  const double read = fastest_run(*stream, length, [&] {
    ops->square_sums(reinterpret_cast<double*>(sums->data()), memory->data(), DType::bf16, values);
  });
  const double copied = fastest_run(
      *stream, length, [&] { stream->copy(memory->data() + half, memory->data(), half); });
  const auto bytes = static_cast<double>(2 * half);
  return read <= copied ? ReadRate{bytes / read, "sums of squares"}
                        : ReadRate{bytes / copied, "a copy, counted twice"};
}

}  // namespace ebb::measure
