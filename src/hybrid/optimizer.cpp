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
  // The first states to ride in come on a lane of their own, which does not wait for this one.
  compute_.synchronize();
}

const Optimizer::GradientStatus& Optimizer::gradient_status(std::int64_t parameter) const {
  if (parameter < 0 || parameter >= parameters()) {
    throw ConfigError(
        fmt::format("parameter {}: there are {}, counted from 0", parameter, parameters()));
  }
  return gradient_status_[parameter];
}

Optimizer::GradientStatus& Optimizer::gradient_status(std::int64_t parameter) {
  return const_cast<GradientStatus&>(std::as_const(*this).gradient_status(parameter));
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
  require_count("read_master() of {} into {} elements", parameter, to.size(),
                parameters_[parameter].count);
  store().read_master(static_cast<int>(parameter), 0, to);
}

void Optimizer::require_count(std::string_view what, std::int64_t parameter, std::size_t given,
                              std::int64_t expected) const {
  if (static_cast<std::int64_t>(given) == expected) return;
  throw ConfigError(fmt::format(
      "{}: it has {}",
      fmt::format(fmt::runtime(what), in_quotes(parameters_[parameter].name), given), expected));
}

StateStore& Optimizer::store_to_write(std::string_view what) {
  require_between_steps(what);
  wait();
  fetching_ = false;
  return store_;
}

void Optimizer::write_master(std::int64_t parameter, std::span<const float> from, void* stream) {
  gradient_status(parameter);
  require_count("write_master() of {} from {} elements", parameter, from.size(),
                parameters_[parameter].count);
  StateStore& store = store_to_write("write_master()");
  issue([&] {
    order_behind(stream, {&compute_});
    store.write_master(static_cast<int>(parameter), 0, from);
  });
}

std::int64_t Optimizer::steps_of(std::int64_t parameter) const {
  return gradient_status(parameter).steps;
}

void Optimizer::set_steps(std::int64_t parameter, std::int64_t steps) {
  GradientStatus& status = gradient_status(parameter);
  require_between_steps("set_steps()");
  if (steps < 0 || steps > kMostSteps) {
    throw ConfigError(fmt::format("set_steps() of {}: {} is not 0 to {}",
                                  in_quotes(parameters_[parameter].name), steps, kMostSteps));
  }
  status.steps = steps;
}

void Optimizer::read_moments(std::int64_t parameter, std::span<float> first,
                             std::span<float> second) {
  gradient_status(parameter);
  const std::int64_t count = parameters_[parameter].count;
  const bool both = states::moments_of(choices_.rule) == 2;
  require_count("read_moments() of {}, the first into {} elements", parameter, first.size(), count);
  require_count("read_moments() of {}, the second into {} elements", parameter, second.size(),
                both ? count : 0);
  StateStore& from = store();
  from.read_moment(Plane::first, static_cast<int>(parameter), 0, first);
  if (both) from.read_moment(Plane::second, static_cast<int>(parameter), 0, second);
}

void Optimizer::write_moments(std::int64_t parameter, std::span<const float> first,
                              std::span<const float> second) {
  gradient_status(parameter);
  const std::int64_t count = parameters_[parameter].count;
  require_count("write_moments() of {}, the first from {} elements", parameter, first.size(),
                count);
  require_count("write_moments() of {}, the second from {} elements", parameter, second.size(),
                states::moments_of(choices_.rule) == 2 ? count : 0);
  StateStore& store = store_to_write("write_moments()");
  issue([&] { store.write_moments(static_cast<int>(parameter), first, second); });
}

Bytes Optimizer::stored_moments(std::int64_t parameter) const {
  gradient_status(parameter);
  const states::Tensor& tensor = map_.tensors[parameter];
  Bytes bytes = 0;
  for (const Plane plane : states::moment_planes(tensor.kind)) {
    bytes += states::plane_bytes(plane, tensor.kind, tensor.count);
  }
  return bytes;
}

void Optimizer::read_stored_moments(std::int64_t parameter, std::span<std::byte> to) {
  require_count("read_stored_moments() of {} into {} bytes", parameter, to.size(),
                stored_moments(parameter));
  StateStore& from = store();
  for (const Plane plane : states::moment_planes(map_.tensors[parameter].kind)) {
    from.read_plane(plane, static_cast<int>(parameter), [&](std::span<const std::byte> piece) {
      std::copy(piece.begin(), piece.end(), to.begin());
      to = to.subspan(piece.size());
    });
  }
}

void Optimizer::write_stored_moments(std::int64_t parameter, std::span<const std::byte> from) {
  require_count("write_stored_moments() of {} from {} bytes", parameter, from.size(),
                stored_moments(parameter));
  StateStore& store = store_to_write("write_stored_moments()");
  const states::Tensor& tensor = map_.tensors[parameter];
  issue([&] {
    for (const Plane plane : states::moment_planes(tensor.kind)) {
      states::for_pieces(tensor.count, [&](std::int64_t first, std::int64_t n) {
        const std::size_t bytes = to_size(states::plane_bytes(plane, tensor.kind, n));
        std::copy_n(from.begin(), bytes, store.staging());
        store.write(plane, static_cast<int>(parameter), first, n, store.staging());
        from = from.subspan(bytes);
      });
    }
  });
}

void Optimizer::save(io::FileSystem& files, const std::filesystem::path& path) {
  StateInfo info = info_;
  info.step = gradient_status_[0].steps;
  for (std::size_t p = 1; p < gradient_status_.size(); ++p) {
    if (gradient_status_[p].steps == info.step) continue;
    throw ConfigError(fmt::format(
        "save(): {} has taken {} steps and {} has taken {}, a file has one count for all: read the "
        "states of the parameters instead",
        in_quotes(parameters_[0].name), info.step, in_quotes(parameters_[p].name),
        gradient_status_[p].steps));
  }
  save_state(files, path, store(), info);
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
  for (GradientStatus& status : gradient_status_) status.steps = info_.step;
  info_.seed = file.info().seed;
}

}  // namespace ebb::hybrid
