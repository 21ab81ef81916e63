// What `ebb probe` measures: each rate that plans are made with, by the kernels, streams and sizes
// that training has, one part after the other.
#include "measure/probe/measure.h"

#include <algorithm>
#include <array>
#include <numeric>

#include <fmt/format.h>

#include "base/json.h"
#include "base/machine.h"
#include "base/to_size.h"
#include "measure/bench/state_memory.h"
#include "measure/bench/streaming.h"
#include "measure/probe/block_work.h"
#include "measure/probe/single_kind_ops.h"
#include "measure/probe/timing.h"
#include "states/rules.h"

namespace ebb::measure {
namespace {

using device::StreamKind;
using kernels::StateFormat;
using plan::Figure;
using plan::Lane;

// Models whose products are all wide, all narrow, and so small that starting them is all there is.
struct Sizes {
  model::Config wide, narrow;
  model::Shape wide_shape, narrow_shape;
  double pass_seconds = 0;
  double settling_seconds = 0;  // before products are timed
};

// A model of one block; as in most models now, eight query heads share a head of keys and values.
model::Config block_of(std::int64_t hidden, std::int64_t heads, std::int64_t head_dim,
                       std::int64_t intermediate, std::int64_t vocabulary) {
  return {.hidden = hidden,
          .layers = 1,
          .heads = heads,
          .kv_heads = std::max<std::int64_t>(1, heads / 8),
          .head_dim = head_dim,
          .intermediate = intermediate,
          .vocabulary = vocabulary,
          .max_positions = 4096};
}

// A GPU is fast where there is much to do at once, and its clocks settle after a while; a CPU is
// disturbed less often in a short pass.
Sizes sizes_for(const std::string& device) {
  if (device == "cuda") {
    return {.wide = block_of(2048, 16, 128, 8192, 8192),
            .narrow = block_of(384, 6, 64, 1024, 8192),
            .wide_shape = {.rows = 8, .sequence = 2048},
            .narrow_shape = {.rows = 8, .sequence = 2048},
            .pass_seconds = 0.05,
            .settling_seconds = 2};
  }
  return {.wide = block_of(512, 8, 64, 1408, 1024),
          .narrow = block_of(256, 4, 64, 704, 512),
          .wide_shape = {.rows = 1, .sequence = 512},
          .narrow_shape = {.rows = 1, .sequence = 512},
          .pass_seconds = 0.002};
}
// So small that its time is that of starting its ops.
const model::Config kSmallest = block_of(64, 1, 64, 64, 64);
constexpr model::Shape kSmallestShape = {.rows = 1, .sequence = 16};

// From what starting dominates to what the link does; the largest is the profile's rate.
constexpr std::array<Bytes, 4> kCopies = {64 * kKiB, kMiB, 8 * kMiB, 64 * kMiB};
constexpr Bytes kLargestCopy = kCopies.back();
constexpr std::array kFormats = {StateFormat::exact, StateFormat::bf16, StateFormat::int8};

// So many parameters that their states, in the smallest format too, are several times what caches
// hold: caches of servers hold hundreds of megabytes, and are three times as fast as their memory.
// Fewer where there is hardly time.
std::int64_t parameters_for(double seconds) {
  const auto of_time = [&](double a_second) {
    return static_cast<std::int64_t>(seconds * a_second);
  };
  const auto wanted = std::max(of_time(2e6), std::min(of_time(2e7), largest_cache() / 4));
  return std::clamp<std::int64_t>(wanted, 1 << 20, std::max<Bytes>(1 << 20, usable_memory() / 128));
}

// Measures once. Each part makes its own memory and gives it back, so that large parts fit a small
// device.
class Measurement {
 public:
  Measurement(engine::Runtime& runtime, double seconds,
              const std::function<void(const std::string&, double)>& tell)
      : runtime_(runtime),
        tell_(tell),
        sizes_(sizes_for(runtime.device().kind())),
        length_{.all = seconds / kTimings, .pass = sizes_.pass_seconds},
        parts_(runtime.device().kind() == "cpu" ? 25 : 28),
        parameters_(parameters_for(seconds)),
        compute_(runtime.device().create_stream(StreamKind::compute, "compute")),
        up_(runtime.device().create_stream(StreamKind::copy, "up")),
        down_(runtime.device().create_stream(StreamKind::copy, "down")),
        host_(runtime.device().create_stream(StreamKind::host, "host")) {}

  Measured all() {
    profile_.name = fmt::format("{}, {} threads", runtime_.device().name(), runtime_.threads());
    profile_.device = runtime_.device().kind();
    profile_.device_memory = runtime_.memory().device;
    profile_.host_memory = runtime_.memory().host;
    profile_.cores = runtime_.threads();
    for (const DType type : {DType::bf16, DType::f32}) measure_model(type);
    measure_starts();
    for (const StateFormat format : kFormats) measure_updates(format);
    measure_sums();
    measure_cpu_blocks();
    measure_link();
    return {.profile = std::move(profile_), .tables = std::move(tables_)};
  }

 private:
  static constexpr double kTimings = 41;  // some parts take several

  // Told at the start of a part: `behind_` counts it already, so that the share is never 0.
  void next(const std::string& now) { tell_(now, ++behind_ / parts_); }
  // The source is part of a figure: plans say which of their speeds were measured.
  static Figure measured(double value) { return {value, "measured"}; }
  bool on_cpu() const { return profile_.device == "cpu"; }

  // Halves a batch until it fits into what the device has.
  model::Shape fitting(const model::Config& config, DType type, model::Shape shape) {
    while (shape.rows > 1 &&
           BlockWork::bytes(runtime_, config, type, shape) > profile_.device_memory / 2) {
      shape.rows /= 2;
    }
    return shape;
  }

  // Each kind of op alone, in a block that skips all others; fp32 is kept as a variant of bf16's
  // figures.
  void measure_model(DType type) {
    const bool plain = type == DType::bf16;
    using Kind = ChosenOps::Kind;
    const auto keep = [&](Figure plan::Profile::*figure, std::string_view name, double value) {
      if (plain) profile_.*figure = measured(value);
      if (!plain) profile_.variants["fp32"][std::string(name)] = measured(value);
    };
    const auto seconds = [&](BlockWork& block, Kind kind, const std::string& what) {
      next(fmt::format("{} {}", name_of(type), what));
      auto of_all_kinds = block.ops();
      ChosenOps ops(of_all_kinds, kind);
      const auto run = [&] { block.run(ops); };
      const bool settles = kind == Kind::product && sizes_.settling_seconds > 0;
      return settles ? settled_run(*compute_, length_, sizes_.settling_seconds, run)
                     : fastest_run(*compute_, length_, run);
    };
    {
      BlockWork block(runtime_, *compute_, sizes_.wide, type,
                      fitting(sizes_.wide, type, sizes_.wide_shape));
      const plan::Cost cost = block.cost();
      const double attention = seconds(block, Kind::attention, "attention");
      const double backward = seconds(block, Kind::attention_backward, "attention, backward");
      const double passes = seconds(block, Kind::pass, "norms, activations, loss");
      const double alone = seconds(block, Kind::product, "matrix products");
      const double products = among_others(block, alone, attention + backward + passes);
      keep(&plan::Profile::matmul_flops, "matmul_flops", cost.flops / products);
      keep(&plan::Profile::attention_flops, "attention_flops", cost.attention_flops / attention);
      keep(&plan::Profile::attention_backward_flops, "attention_backward_flops",
           cost.attention_backward_flops / backward);
      keep(&plan::Profile::pass_bytes_per_second, "pass_bytes_per_second",
           cost.pass_bytes / passes);
    }
    BlockWork block(runtime_, *compute_, sizes_.narrow, type,
                    fitting(sizes_.narrow, type, sizes_.narrow_shape));
    keep(&plan::Profile::narrow_flops, "narrow_flops",
         block.cost().narrow_flops / seconds(block, Kind::product, "narrow products"));
  }

  // What products take in a block that runs as in training: all of it, less what the others take.
  // Where they follow each other alone nothing between them spares power, and a product that is
  // activated in its own pass saves one: with that rate resident steps were predicted 4 to 5% slow.
  double among_others(BlockWork& block, double alone, double others) {
    if (sizes_.settling_seconds == 0) return alone;
    auto ops = block.ops();
    const double all =
        settled_run(*compute_, length_, sizes_.settling_seconds / 2, [&] { block.run(ops); });
    // A difference of large numbers: noise in either must not become a rate that no product has.
    return std::clamp(all - others, 0.8 * alone, alone);
  }

  // What an op and what a task cost before they do anything.
  void measure_starts() {
    next("starts of ops and tasks");
    BlockWork block(runtime_, *compute_, kSmallest, DType::bf16, kSmallestShape);
    auto ops = block.ops();
    profile_.call_seconds =
        measured(fastest_run(*compute_, length_, [&] { block.run(ops); }) / block.cost().calls);
    profile_.task_seconds = measured(fastest_hop(*compute_, *up_, length_, runtime_.device()));
  }

  // The same update by the device, where it has kernels of its own, and by the CPU.
  void measure_updates(StateFormat format) {
    const states::StateKind kind{.format = format};
    StateMemory host(runtime_.device(), kind, parameters_);
    next(fmt::format("updates by the CPU, {}", kernels::name_of(format)));
    host.fill(runtime_.pool());
    double bytes = 0;
    for (const StreamedPlane& plane : host.planes()) {
      bytes += static_cast<double>(plane.bytes) * (plane.written ? 2 : 1);
    }
    const kernels::StepScale scale{.gradient_scale = 0.9f};
    const auto update = [&](kernels::OptimizerOps& ops, const kernels::StateSpan& span,
                            const kernels::StepScale* at) {
      ops.update(span, states::step_numbers(states::AdamW{}, 1e-3, ++step_, true, 0), at);
    };
    auto host_ops = runtime_.host_optimizer().ops({.stream = host_.get()});
    const auto on_host = [&] { update(host_ops, host.span(), &scale); };
    const double by_cpu = bytes / fastest_run(*host_, length_, on_host);
    double by_device = by_cpu;
    if (!on_cpu()) {
      next(fmt::format("updates on the device, {}", kernels::name_of(format)));
      const StateMemory there(runtime_.device().allocate_device(host.buffer().bytes()), kind,
                              parameters_);
      compute_->copy_now(there.buffer().data(), host.buffer().data(), host.buffer().bytes());
      const auto small = runtime_.device().allocate_device(sizeof scale);
      compute_->copy_now(small->data(), &scale, sizeof scale);
      auto ops = runtime_.device_optimizer().ops({.stream = compute_.get()});
      by_device =
          bytes / fastest_run(*compute_, length_, [&] {
            update(ops, there.span(), reinterpret_cast<const kernels::StepScale*>(small->data()));
          });
    }
    if (format != StateFormat::exact) {
      auto& variant = profile_.variants[fmt::format("{} states", kernels::name_of(format))];
      variant["host_bytes_per_second"] = measured(by_cpu);
      variant["device_bytes_per_second"] = measured(by_device);
      return;
    }
    profile_.host_bytes_per_second = measured(by_cpu);
    profile_.device_bytes_per_second = measured(by_device);
    measure_memory(host.planes(), bytes);
    beside_updates_ = measure_beside("updates", {*host_, on_host, bytes});
  }

  // The sums of a third and later micro-batch: a gradient is read, the planes of its sum are read
  // and written. Chunk after chunk, as in a step: what a cache still has of the last pass is no
  // measure.
  void measure_sums() {
    next("sums of gradients by the CPU");
    constexpr Bytes each = 2;  // bytes of a gradient and of a plane
    const std::int64_t chunks =
        length_.all > 0 ? 1 + 4 * largest_cache() / (parameters_ * 3 * each) : 1;
    const auto memory = runtime_.device().allocate_host(chunks * parameters_ * 3 * each);
    std::fill_n(memory->data(), memory->bytes(), std::byte{0});  // pages are there
    std::int64_t turn = 0;
    const auto add = [&] {
      auto* const high =
          reinterpret_cast<std::uint16_t*>(memory->data()) + turn++ % chunks * 3 * parameters_;
      runtime_.host_optimizer()
          .ops({.stream = host_.get()})
          ->add_to_planes({high, high + parameters_},
                          reinterpret_cast<const bf16*>(high + 2 * parameters_), parameters_);
    };
    const auto bytes = static_cast<double>(parameters_ * 5 * each);
    profile_.sum_bytes_per_second = measured(bytes / fastest_run(*host_, length_, add));
    beside_sums_ = measure_beside("sums", {*host_, add, bytes});
  }

  // What generation has the CPU do with blocks in host memory: matrix products of a prompt's
  // tokens, and of one token, which read their weights and do little else. Weights pass by as in a
  // model.
  void measure_cpu_blocks() {
    next("blocks by the CPU");
    constexpr std::int64_t side = 2048, tokens = 128;
    const Bytes each = side * side * size_of(DType::bf16), rows = tokens * side * 2;
    const std::int64_t matrices =
        length_.all > 0 ? std::clamp<std::int64_t>(4 * largest_cache() / each, 2, 256) : 1;
    const auto weights = runtime_.device().allocate_host(matrices * each);
    const auto in = runtime_.device().allocate_host(rows),
               out = runtime_.device().allocate_host(rows);
    std::fill_n(weights->data(), weights->bytes(), std::byte{0});  // pages are there
    std::fill_n(in->data(), rows, std::byte{0});
    std::int64_t turn = 0;
    const auto seconds = [&](std::int64_t count) {
      const auto view = [](std::byte* data, std::int64_t height) {
        return kernels::View{data, DType::bf16, height, side, side};
      };
      const kernels::View c = view(out->data(), count), a = view(in->data(), count);
      const kernels::MatmulOptions options{.transpose_b = true};
      kernels::ModelLibrary& library = runtime_.cpu_model();
      const Bytes scratch = library.matmul_scratch(c, a, view(weights->data(), side), options);
      const auto memory = runtime_.device().allocate_host(std::max<Bytes>(scratch, 1));
      return fastest_run(*host_, length_, [&] {
        auto ops =
            library.ops({.stream = host_.get(), .scratch = {memory->data(), to_size(scratch)}});
        ops->matmul(c, a, view(weights->data() + turn++ % matrices * each, side), options);
      });
    };
    const double flops = 2.0 * static_cast<double>(tokens * side * side);
    profile_.cpu_flops = measured(flops / seconds(tokens));
    profile_.cpu_read_bytes_per_second = measured(static_cast<double>(each) / seconds(1));
  }

  // The fastest way to read and write these planes.
  void measure_memory(const std::vector<StreamedPlane>& planes, double bytes) {
    next("host memory");
    double best = 0;
    for (const StreamVariant& variant : stream_variants()) {
      const PassLength length{.all = length_.all / 10, .pass = 0};
      best = std::max(best, bytes / fastest_run(*host_, length, [&] {
                              stream_pass(runtime_.pool(), planes, variant, 0);
                            }));
    }
    tables_["host_memory_bytes_per_second"] = best;
  }

  // Copies go through the host's memory by turns, as those of a step do: what a cache still has of
  // the last one is no measure.
  struct Link {
    std::unique_ptr<device::Buffer> device, host;
    Bytes each = 0;  // of the host's memory, up and down
  };
  Link make_link() {
    const Bytes beyond_caches =
        length_.all > 0 ? (2 * largest_cache() / kLargestCopy + 1) * kLargestCopy : 0;
    const Bytes each =
        std::clamp(beyond_caches, kLargestCopy, std::max(kLargestCopy, usable_memory() / 32));
    Link link{runtime_.device().allocate_device(2 * kLargestCopy),
              runtime_.device().allocate_host(2 * each), each};
    std::fill_n(link.host->data(), link.host->bytes(), std::byte{1});  // pages are there
    return link;
  }
  // The next place of `bytes` in a ring of `all`; `turn` is kept by the caller.
  static std::byte* next_place(std::byte* start, Bytes& turn, Bytes bytes, Bytes all) {
    const Bytes at = turn;
    turn = turn + 2 * bytes <= all ? turn + bytes : 0;
    return start + at;
  }
  std::function<void()> copy_up(const Link& link, Bytes bytes) {
    return
        [this, to = link.device->data(), start = link.host->data(), bytes, all = link.each,
         turn = Bytes{0}]() mutable { up_->copy(to, next_place(start, turn, bytes, all), bytes); };
  }
  std::function<void()> copy_down(const Link& link, Bytes bytes) {
    return [this, from = link.device->data() + kLargestCopy, start = link.host->data() + link.each,
            bytes, all = link.each, turn = Bytes{0}]() mutable {
      down_->copy(next_place(start, turn, bytes, all), from, bytes);
    };
  }

  static std::function<void()> repeat(std::int64_t times, std::function<void()> work) {
    return [times, work = std::move(work)] {
      for (std::int64_t i = 0; i < times; ++i) work();
    };
  }

  // Work of the CPU while both lanes copy: up, down and its own bytes a second. What all three move
  // together is what host memory carries; less than each alone, if they are in each other's way,
  // and not in equal parts.
  std::vector<double> measure_beside(const std::string& what, const Loop& by_cpu) {
    next(fmt::format("copies beside {} by the CPU", what));
    const Link link = make_link();
    const auto bytes = static_cast<double>(kLargestCopy);
    const std::vector<double> rates =
        rates_together({{*up_, copy_up(link, kLargestCopy), bytes},
                        {*down_, copy_down(link, kLargestCopy), bytes},
                        by_cpu},
                       2 * length_.all);
    tables_["beside_" + what] = {{"up", rates[0]}, {"down", rates[1]}, {what, rates[2]}};
    return rates;
  }

  void measure_link() {
    const Link link = make_link();
    Json by_size = Json::array();
    double up = 0, down = 0;
    for (const Bytes bytes : kCopies) {
      const auto count = static_cast<double>(bytes);
      next(fmt::format("copies of {}", format_bytes(bytes)));
      up = count / fastest_run(*up_, length_, copy_up(link, bytes));
      down = count / fastest_run(*down_, length_, copy_down(link, bytes));
      const Bytes copies = kLargestCopy / bytes;  // in a row, so that lanes do not meet each time
      const auto whole = static_cast<double>(kLargestCopy);
      const std::vector<double> both =
          rates_together({{*up_, repeat(copies, copy_up(link, bytes)), whole},
                          {*down_, repeat(copies, copy_down(link, bytes)), whole}},
                         length_.all);
      by_size.push_back(
          {{"bytes", bytes}, {"up", up}, {"down", down}, {"both", both[0] + both[1]}});
    }
    next("starts of copies");
    // Its bytes take no time: what is left is starting a copy, less the hop that every task makes.
    constexpr Bytes least = 256;
    const double whole = fastest_run(*up_, length_, copy_up(link, least));
    profile_.copy_seconds = measured(std::max(1e-8, whole - profile_.task_seconds));
    profile_.up_bytes_per_second = measured(up);
    profile_.down_bytes_per_second = measured(down);
    const double both = by_size.back().at("both").get<double>();
    tables_["link_bytes_per_second"] = std::move(by_size);
    if (on_cpu()) {
      // Lanes are threads: they share the cores. Where they compute they have the pool's as well.
      const double pool = runtime_.threads();
      profile_.shared.push_back({.name = "cores",
                                 .capacity = measured(usable_cpus()),
                                 .wants = {pool, 1, 1, pool, pool, 0, 0, pool}});
    } else {
      profile_.shared.push_back(
          {.name = "link", .capacity = measured(both), .wants = {0, up, down}});
    }
    const auto total = [](const std::vector<double>& rates) {
      return std::accumulate(rates.begin(), rates.end(), 0.0);
    };
    const auto mean = [&](std::size_t i) { return (beside_updates_[i] + beside_sums_[i]) / 2; };
    profile_.shared.push_back(
        {.name = "host memory",
         .capacity = measured(std::max(total(beside_updates_), total(beside_sums_))),
         .wants = {0, up, down, profile_.host_bytes_per_second, profile_.sum_bytes_per_second, 0, 0,
                   profile_.cpu_read_bytes_per_second},
         // A block that is computed reads as an update does.
         .beside = {0, mean(0), mean(1), beside_updates_[2], beside_sums_[2], 0, 0,
                    std::min<double>(beside_updates_[2], profile_.cpu_read_bytes_per_second)}});
  }

  engine::Runtime& runtime_;
  const std::function<void(const std::string&, double)>& tell_;
  Sizes sizes_;
  PassLength length_;
  double parts_;       // calls of next(), and one more
  double behind_ = 0;  // of them
  std::int64_t parameters_;
  std::int64_t step_ = 0;
  std::vector<double> beside_updates_, beside_sums_;  // up, down, by the CPU
  plan::Profile profile_;
  Json tables_;
  std::unique_ptr<device::Stream> compute_, up_, down_, host_;
};

}  // namespace

Measured measure_machine(engine::Runtime& runtime, double seconds,
                         const std::function<void(const std::string&, double)>& tell) {
  return Measurement(runtime, seconds, tell).all();
}

}  // namespace ebb::measure
