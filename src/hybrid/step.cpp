// What Optimizer queues for a gradient and for a step.
#include <cmath>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"
#include "hybrid/optimizer.h"

namespace ebb::hybrid {

using kernels::StepScale;

void Optimizer::gradient_ready(std::int64_t parameter, void* stream) {
  Turn& turn = this->turn(parameter);
  const Parameter& of = parameters_[static_cast<std::size_t>(parameter)];
  check_gradient(of, of.gradient);
  if (turn.is_ready) {
    throw ConfigError(fmt::format(
        "the gradient of {} is ready for the second time in this step: sum micro-batches first",
        in_quotes(of.name)));
  }
  if (!turn.is_awaited) {
    throw ConfigError(fmt::format(
        "the gradient of {} is ready, but nobody waited for its weight since step {} changed it: "
        "call wait_for_weight() before the pass that reads it",
        in_quotes(of.name), info_.step));
  }
  // One that moved onto another's old place is told only now, when that other has moved, or has
  // not.
  in_use_.check_apart(of, of.gradient);
  check_failure();
  // Known to the device while copies of it are queued; the memory may be another's next time.
  const auto known =
      device_->adopt_device_memory(const_cast<std::byte*>(of.gradient), of.gradient_bytes());
  issue([&] {
    start_fetching();
    foreign(stream).record(*turn.ready);
    compute_->wait(*turn.ready);
    queue(*compute_,
          [this, &of, gradient = of.gradient, to = memory_.squares() + turn.first_square] {
            device_library_->ops({.stream = compute_.get()})
                ->square_sums(to, gradient, of.gradient_type, of.count);
          });
    send_gradients(parameter);
  });
  turn.is_ready = true;
  ++ready_;
  in_use_.add(of);
}

void Optimizer::send_gradients(std::int64_t parameter) {
  const Parameter& of = parameters_[static_cast<std::size_t>(parameter)];
  bool waits = false;
  for (const int c : store_.chunks_of(static_cast<int>(parameter))) {
    const Chunk& chunk = chunks_[static_cast<std::size_t>(c)];
    if (chunk.site != Site::host) continue;
    if (!waits) gradients_->wait(*turn(parameter).ready);
    waits = true;
    Cell& cell = this->cell(c);
    gradients_->wait(*cell.updated);  // the CPU has read what was there
    for (const Part& part : chunk.parts) {
      if (part.parameter != parameter) continue;
      const Bytes element = size_of(of.gradient_type);
      queue(*gradients_,
            [this, to = memory_.home(cell.chunk).gradient + part.in_chunk * element,
             from = of.gradient + part.in_parameter * element,
             bytes = part.count * element] { copy_down(*gradients_, to, from, bytes); });
      --cell.gradients_missing;
    }
    if (cell.gradients_missing == 0) gradients_->record(*cell.down);
  }
}

// As many as the window holds; the rest follow as places become free.
void Optimizer::start_fetching() {
  if (fetching_) return;
  fetching_ = true;
  for (std::size_t i = 0; i < memory_.slots(); ++i) fetch(i);
}

// A place's last record of going out is also that of the chunk's own last way out, or came after it
// on the same lane.
void Optimizer::fetch(std::size_t streamed) {
  Cell& cell = cells_[streamed_[streamed]];
  const std::size_t slot = streamed % memory_.slots();
  in_->wait(*out_of_slot_[slot]);
  queue(*in_, [this, to = memory_.slot(slot), from = memory_.home(cell.chunk).state,
               bytes = chunks_[cell.chunk].state_bytes()] { copy_up(*in_, to, from, bytes); });
  in_->record(*cell.in);
}

HybridOptimizer::StepReport Optimizer::step(double learning_rate, double clip, void* stream) {
  if (!std::isfinite(learning_rate) || learning_rate < 0) {
    throw ConfigError(fmt::format("learning rate {}: expected 0 or more", learning_rate));
  }
  if (std::isnan(clip) || clip < 0) {
    throw ConfigError(fmt::format("clip {}: expected 0 or more, 0 for none", clip));
  }
  for (std::size_t p = 0; p < turns_.size(); ++p) {
    if (turns_[p].is_ready) continue;
    throw ConfigError(
        fmt::format("step with {} of {} gradients: that of {} is missing, call gradient_ready()",
                    ready_, parameters(), in_quotes(parameters_[p].name)));
  }
  optim::Norm norm;
  issue([&] {
    foreign(stream).record(*behind_caller_);
    norm = find_norm(clip);
  });
  const bool applied = norm.scale.apply != 0;
  if (applied) {
    const auto numbers = [&](bool decays) {
      return optim::step_numbers(choices_.rule, learning_rate, info_.step + 1, decays, info_.seed);
    };
    issue([&] {
      const Numbers both{.decaying = numbers(true), .resting = numbers(false)};
      *memory_.host_scale() = norm.scale;  // compute has read the last one: it made the norm since
      update_on_host(both, norm.scale);
      compute_->wait(*behind_caller_);
      queue(*compute_, [this] {
        copy_up(*compute_, memory_.scale(), memory_.host_scale(), sizeof(StepScale));
      });
      update_resident(both);
      update_streamed(both);
    });
    ++info_.step;
    fetching_ = false;
  } else {
    // No update will follow the copies down, so nothing else tells when they have ended.
    issue([&] { gradients_->synchronize(); });
    in_use_.clear();
  }
  ready_ = 0;
  for (Turn& turn : turns_) {
    turn.is_ready = false;
    turn.is_awaited = turn.is_awaited && !applied;
  }
  for (const std::size_t c : hosted_) {
    cells_[c].gradients_missing = static_cast<int>(chunks_[c].parts.size());
  }
  return {.step = info_.step,
          .norm = norm.value,
          .clip_factor = applied ? static_cast<double>(norm.scale.gradient_scale) : 0.0,
          .applied = applied,
          .first_bad = norm.first_bad_tensor};
}

optim::Norm Optimizer::find_norm(double clip) {
  // The CPU's last step has long ended: its weights were waited for. Making sure of it bounds how
  // far events can be recorded ahead of who waits for them.
  host_ended_->synchronize();
  queue(*compute_,
        [this] { copy_down(*compute_, memory_.host_squares(), memory_.squares(), 8 * squares_); });
  compute_->record(*norm_known_);
  norm_known_->synchronize();
  check_failure();
  std::vector<std::span<const double>> tensors;
  tensors.reserve(parameters_.size());
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    tensors.emplace_back(memory_.host_squares() + turns_[p].first_square,
                         static_cast<std::size_t>(kernels::norm_blocks(parameters_[p].count)));
  }
  return optim::global_norm(tensors, clip);
}

void Optimizer::update(std::size_t c, std::byte* state, bool on_host, const Numbers& numbers,
                       const StepScale* scale) {
  const Chunk& chunk = chunks_[c];
  const optim::StatePlanes planes = optim::planes(state, chunk.kind, chunk.count);
  std::vector<kernels::SpanUpdate> updates;
  for (const Part& part : chunk.parts) {
    const Parameter& of = parameters_[static_cast<std::size_t>(part.parameter)];
    // Their memory on the device is the caller's, a tensor each; on the host it is the chunk's.
    const std::int64_t start = on_host ? part.in_chunk : part.in_parameter;
    const Memory::Home& home = memory_.home(c);
    kernels::StateSpan span = optim::state_span(planes, chunk.kind, part.in_chunk, part.count);
    span.weight = (on_host ? home.weight : of.weight) + start * size_of(of.weight_type);
    span.gradient = (on_host ? home.gradient : of.gradient) + start * size_of(of.gradient_type);
    span.gradient_type = of.gradient_type;
    span.tensor_key = of.key;
    span.first_element = part.in_parameter;
    updates.push_back({span, of.decays ? numbers.decaying : numbers.resting});
  }
  auto ops = on_host ? host_library_->ops({.stream = host_.get()})
                     : device_library_->ops({.stream = compute_.get()});
  ops->update_spans(updates, scale);
}

void Optimizer::update_on_host(const Numbers& numbers, const StepScale& scale) {
  if (hosted_.empty()) return;
  weights_->wait(*behind_caller_);
  for (const std::size_t c : hosted_) {
    Cell& cell = cells_[c];
    host_->wait(*cell.down);
    queue(*host_,
          [this, c, numbers, scale] { update(c, memory_.home(c).state, true, numbers, &scale); });
    host_->record(*cell.updated);
    weights_->wait(*cell.updated);
    queue(*weights_, [this, c] {
      const Chunk& chunk = chunks_[c];
      const Bytes element = size_of(chunk.kind.weight_type);
      for (const Part& part : chunk.parts) {
        copy_up(*weights_,
                parameters_[static_cast<std::size_t>(part.parameter)].weight +
                    part.in_parameter * element,
                memory_.home(c).weight + part.in_chunk * element, part.count * element);
      }
    });
    weights_->record(*cell.done);
  }
  host_->record(*host_ended_);
}

void Optimizer::update_resident(const Numbers& numbers) {
  for (const std::size_t c : resident_) {
    queue(*compute_, [this, c, numbers] {
      update(c, memory_.home(c).state, false, numbers, memory_.scale());
    });
    compute_->record(*cells_[c].done);
  }
}

void Optimizer::update_streamed(const Numbers& numbers) {
  for (std::size_t i = 0; i < streamed_.size(); ++i) {
    const std::size_t c = streamed_[i];
    const std::size_t slot = i % memory_.slots();
    compute_->wait(*cells_[c].in);
    queue(*compute_, [this, c, slot, numbers] {
      update(c, memory_.slot(slot), false, numbers, memory_.scale());
    });
    compute_->record(*cells_[c].done);
    out_->wait(*cells_[c].done);
    queue(*out_, [this, c, slot] {
      copy_down(*out_, memory_.home(c).state, memory_.slot(slot), chunks_[c].state_bytes());
    });
    out_->record(*out_of_slot_[slot]);
    if (i + memory_.slots() < streamed_.size()) fetch(i + memory_.slots());
  }
}

}  // namespace ebb::hybrid
