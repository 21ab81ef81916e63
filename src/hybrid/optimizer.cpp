#include "hybrid/optimizer.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/machine.h"
#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::hybrid {

using device::StreamKind;

Optimizer::Optimizer(const Settings& settings,
                     const std::vector<HybridOptimizer::Parameter>& parameters, void* stream,
                     std::uint64_t slow_lanes_seed)
    : parameters_(check_parameters(parameters)),
      choices_(parse_settings(settings, total_count(parameters_))),
      info_{.rule = choices_.rule, .format = choices_.format, .seed = settings.seed, .step = 0},
      map_(cut_chunks(parameters_, choices_)),
      pool_(settings.threads > 0 ? settings.threads : usable_cpus()),
      device_(device::create_device(settings.device)),
      device_library_(kernels::create_device_optimizer(*device_, pool_)),
      host_library_(kernels::create_host_optimizer(pool_)),
      gradient_status_(parameters_.size()),
      memory_(*device_, map_,
              {.window = settings.window,
               .device_limit = settings.device_memory,
               .host_limit = settings.host_memory}),
      chunk_status_(map_.chunks.size()),
      behind_caller_(device_->create_event(StreamKind::compute)),
      norm_known_(device_->create_event(StreamKind::compute)),
      host_ended_(device_->create_event(StreamKind::host)),
      slow_lanes_seed_(slow_lanes_seed),
      lanes_(*device_, {{StreamKind::compute, "compute"},
                        {StreamKind::copy, "in"},
                        {StreamKind::copy, "out"},
                        {StreamKind::copy, "gradients"},
                        {StreamKind::copy, "weights"},
                        {StreamKind::host, "host"}}),
      compute_(lanes_[0]),
      in_(lanes_[1]),
      out_(lanes_[2]),
      gradients_(lanes_[3]),
      weights_(lanes_[4]),
      host_(lanes_[5]),
      store_(parameters_, map_, memory_, pool_, compute_) {
  // Refused now, as the first save may be hours away.
  check_names(store_);
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    gradient_status_[p].weight =
        device_->adopt_device_memory(parameters_[p].weight, parameters_[p].weight_bytes());
    gradient_status_[p].ready = device_->create_event(StreamKind::compute);
  }
  for (std::size_t c = 0; c < map_.chunks.size(); ++c) {
    const Site site = map_.chunks[c].site;
    ChunkStatus& status = chunk_status_[c];
    status.chunk = c;
    status.gradients_missing = static_cast<int>(map_.chunks[c].parts.size());
    status.done = device_->create_event(StreamKind::compute);
    if (site == Site::host) {
      status.down = device_->create_event(StreamKind::copy);
      status.updated = device_->create_event(StreamKind::host);
    } else if (site == Site::stream) {
      status.in = device_->create_event(StreamKind::copy);
    }
    (site == Site::host ? hosted_ : site == Site::stream ? streamed_ : resident_).push_back(c);
  }
  for (std::size_t s = 0; s < memory_.slots(); ++s) {
    out_of_slot_.push_back(device_->create_event(StreamKind::copy));
  }
  clear_states();
  order_behind(stream, {&compute_});
  store_.take_weights();
}

Optimizer::~Optimizer() = default;

HybridOptimizer::Placement Optimizer::placement() const {
  HybridOptimizer::Placement result;
  result.device_bytes = static_cast<Bytes>(memory_.device_piece().size());
  result.host_bytes = static_cast<Bytes>(memory_.host_piece().size());
  for (const Chunk& chunk : map_.chunks) {
    (chunk.site == Site::host     ? result.host_parameters
     : chunk.site == Site::stream ? result.streamed_parameters
                                  : result.resident_parameters) += chunk.parameters;
  }
  return result;
}

// Zeros are the state of a start. Host memory is many GiB: every thread takes its share.
void Optimizer::clear_states() {
  queue(compute_, [this] {
    const std::span<std::byte> device = memory_.device_piece();
    compute_.fill(device.data(), 0, static_cast<Bytes>(device.size()));
  });
  const std::span<std::byte> host = memory_.host_piece();
  // Small enough to share evenly, large enough that taking a share costs nothing.
  constexpr std::size_t piece = std::size_t{16} << 20;
  pool_.parallel_for(static_cast<std::int64_t>((host.size() + piece - 1) / piece),
                     [&](std::int64_t index, int) {
                       const std::size_t start = to_size(index) * piece;
                       const auto part = host.subspan(start, std::min(piece, host.size() - start));
                       std::fill(part.begin(), part.end(), std::byte{0});
                     });
}

Optimizer::GradientStatus& Optimizer::gradient_status(std::int64_t parameter) {
  if (parameter < 0 || parameter >= parameters()) {
    throw ConfigError(
        fmt::format("parameter {}: there are {}, counted from 0", parameter, parameters()));
  }
  return gradient_status_[parameter];
}

device::ForeignStream& Optimizer::foreign(void* stream) {
  auto& found = foreign_[stream];
  // Kept for good: a handful of streams, asked for at every call.
  if (!found) found = device_->adopt_stream(stream);
  return *found;
}

void Optimizer::order_behind(void* stream, std::initializer_list<device::Stream*> lanes) {
  foreign(stream).record(*behind_caller_);
  for (device::Stream* lane : lanes) lane->wait(*behind_caller_);
}

void Optimizer::require_between_steps(std::string_view what) const {
  if (ready_ == 0) return;
  throw ConfigError(fmt::format("{} after {} of {} gradients were ready: call it between steps",
                                what, ready_, parameters()));
}

void Optimizer::issue(FunctionRef<void()> calls) {
  lanes_.check();
  try {
    calls();
  } catch (...) {
    // Half of a call's work is queued: whatever waits for the other half would wait forever.
    lanes_.fail(std::current_exception(), 0);
  }
  lanes_.check();
}

void Optimizer::queue_copy(device::Stream& lane, void* to, const void* from, Bytes bytes,
                           std::atomic<Bytes>& moved) {
  queue(lane, [&lane, &moved, to, from, bytes] {
    lane.copy(to, from, bytes);
    moved += bytes;
  });
}

StateStore& Optimizer::store() {
  wait();
  return store_;
}

void Optimizer::set_gradient(std::int64_t parameter, const void* gradient) {
  GradientStatus& status = gradient_status(parameter);
  Parameter& of = parameters_[parameter];
  check_gradient(of, gradient);
  if (status.is_ready || !status.is_awaited) {
    throw ConfigError(fmt::format(
        "the gradient of {} is in use: it can move after wait_for_weight(), before it is ready",
        in_quotes(of.name)));
  }
  check_apart(parameters_, of, gradient);
  in_use_.check_apart(of, gradient);
  of.gradient = static_cast<const std::byte*>(gradient);
}

void Optimizer::wait_for_weight(std::int64_t parameter, void* stream) {
  GradientStatus& status = gradient_status(parameter);
  issue([&] {
    for (const int c : map_.chunks_of[parameter]) {
      foreign(stream).wait(*chunk_status(c).done);
    }
  });
  status.is_awaited = true;
  if (!status.is_ready) in_use_.remove(parameters_[parameter]);
}

void Optimizer::wait() {
  lanes_.check();
  lanes_.drain(0);
  for (std::size_t p = 0; p < gradient_status_.size(); ++p) {
    gradient_status_[p].is_awaited = true;
    if (!gradient_status_[p].is_ready) in_use_.remove(parameters_[p]);
  }
}

void Optimizer::weights_changed(void* stream) {
  require_between_steps("weights_changed()");
  wait();
  issue([&] {
    order_behind(stream, {&compute_});
    store_.take_weights();
  });
  fetching_ = false;  // what is in the window has the old low halves
}

void Optimizer::read_master(std::int64_t parameter, std::span<float> to) {
  gradient_status(parameter);
  const Parameter& of = parameters_[parameter];
  if (static_cast<std::int64_t>(to.size()) != of.count) {
    throw ConfigError(fmt::format("read_master of {} into {} elements: it has {}",
                                  in_quotes(of.name), to.size(), of.count));
  }
  store().read_master(static_cast<int>(parameter), 0, to);
}

void Optimizer::save(io::FileSystem& files, const std::filesystem::path& path) {
  save_state(files, path, store(), info_);
}

void Optimizer::load(io::FileSystem& files, const std::filesystem::path& path, void* stream) {
  require_between_steps("load()");
  // Reads and checks the whole file, so that a bad one leaves the state as it is.
  const StateFile file(files, path, store(), choices_.rule);
  fetching_ = false;
  issue([&] {
    order_behind(stream, {&compute_});
    file.load(store_);
  });
  info_.step = file.info().step;
  info_.seed = file.info().seed;
}

}  // namespace ebb::hybrid
