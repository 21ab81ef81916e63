// The work that Optimizer queues for a gradient and for a step.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "hybrid/optimizer.h"

namespace ebb::hybrid {

using kernels::StepScale;

namespace {

states::Rule rule_of(const states::Rule& rule, const HybridOptimizer::GroupStep& group) {
  return states::with_options(rule, {.beta1 = group.beta1,
                                     .beta2 = group.beta2,
                                     .epsilon = group.epsilon,
                                     .momentum = group.momentum,
                                     .nesterov = group.nesterov,
                                     .weight_decay = group.weight_decay});
}

}  // namespace

void Optimizer::gradient_ready(std::int64_t parameter, void* stream) {
  GradientStatus& status = gradient_status(parameter);
  const Parameter& of = parameters_[parameter];
  check_gradient(of, of.gradient);
  if (status.is_ready) {
    throw ConfigError(fmt::format(
        "the gradient of {} is ready for the second time in this step: sum micro-batches first",
        in_quotes(of.name)));
  }
  if (!status.is_awaited) {
    throw ConfigError(fmt::format(
        "the gradient of {} is ready, but nobody waited for its weight since step {} changed it: "
        "call wait_for_weight() before the pass that reads it",
        in_quotes(of.name), info_.step));
  }
  // One that moved onto another's old place is told only now, when that other has moved, or has
  // not.
  in_use_.check_apart(of, of.gradient);
  lanes_.check();
  // Known to the device while copies of it are queued; the memory may be another's next time.
  const auto known =
      device_->adopt_device_memory(const_cast<std::byte*>(of.gradient), of.gradient_bytes());
  issue([&] {
    // States may come in while the rest of the backward pass still runs.
    start_fetching();
    foreign(stream).record(*status.ready);
    compute_.wait(*status.ready);
    queue(compute_, [this, &of, gradient = of.gradient,
                     to = memory_.squares() + map_.tensors[parameter].first_square] {
      device_library_->ops({.stream = &compute_})
          ->square_sums(to, gradient, of.gradient_type, of.count);
    });
    send_gradients(parameter);
  });
  status.is_ready = true;
  ++ready_;
  in_use_.add(of);
}

void Optimizer::leave_out(std::int64_t parameter) {
  GradientStatus& status = gradient_status(parameter);
  if (status.is_ready) {
    throw ConfigError(
        fmt::format("{} is left out, but its gradient is ready, or it is left out "
                    "for the second time in this step",
                    in_quotes(parameters_[parameter].name)));
  }
  issue([&] {
    start_fetching();
    const std::int64_t blocks = kernels::norm_blocks(parameters_[parameter].count);
    queue(compute_, [this, blocks, to = memory_.squares() + map_.tensors[parameter].first_square] {
      compute_.fill(to, 0, blocks * Bytes{sizeof(double)});
    });
    for (const int c : map_.chunks_of[parameter]) {
      if (map_[c].site != Site::host) continue;
      for (const Part& part : map_[c].parts) {
        if (part.parameter == parameter) count_gradient(chunk_status(c));
      }
    }
  });
  status.is_ready = true;
  status.is_left_out = true;
  ++ready_;
}

void Optimizer::discard() {
  issue([&] {
    // Both read gradients; nothing else does before a step.
    gradients_.synchronize();
    compute_.synchronize();
  });
  for (std::size_t p = 0; p < gradient_status_.size(); ++p) {
    if (gradient_status_[p].is_ready) in_use_.remove(parameters_[p]);
  }
  forget_gradients();
}

void Optimizer::forget_gradients() {
  ready_ = 0;
  for (GradientStatus& status : gradient_status_) status.is_ready = status.is_left_out = false;
  for (const std::size_t c : hosted_) {
    chunk_status_[c].gradients_missing = static_cast<int>(map_.chunks[c].parts.size());
  }
}

void Optimizer::count_gradient(ChunkStatus& chunk) {
  if (--chunk.gradients_missing == 0) gradients_.record(*chunk.down);
}

void Optimizer::send_gradients(std::int64_t parameter) {
  const Parameter& of = parameters_[parameter];
  bool waits = false;
  for (const int c : map_.chunks_of[parameter]) {
    const Chunk& chunk = map_[c];
    if (chunk.site != Site::host) continue;
    if (!waits) gradients_.wait(*gradient_status(parameter).ready);
    waits = true;
    ChunkStatus& status = this->chunk_status(c);
    gradients_.wait(*status.updated);  // the CPU has read what was there
    for (const Part& part : chunk.parts) {
      if (part.parameter != parameter) continue;
      const Bytes element = size_of(of.gradient_type);
      queue_copy(gradients_, memory_.home(status.chunk).gradient + part.in_chunk * element,
                 of.gradient + part.in_parameter * element, part.count * element, down_bytes_);
      count_gradient(status);
    }
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
  ChunkStatus& status = chunk_status_[streamed_[streamed]];
  const std::size_t slot = streamed % memory_.slots();
  in_.wait(*out_of_slot_[slot]);
  queue_copy(in_, memory_.slot(slot), memory_.home(status.chunk).state,
             map_.chunks[status.chunk].state_bytes(), up_bytes_);
  in_.record(*status.in);
}

HybridOptimizer::StepReport Optimizer::step(double learning_rate, double clip, void* stream) {
  std::int64_t groups = 1;
  for (const Parameter& parameter : parameters_) groups = std::max(groups, parameter.group + 1);
  return step(std::vector<GroupStep>(to_size(groups), {.learning_rate = learning_rate}), clip, 1,
              stream);
}

HybridOptimizer::StepReport Optimizer::step(std::span<const GroupStep> groups, double clip,
                                            double gradient_scale, void* stream) {
  std::vector<states::Rule> rules;
  for (const GroupStep& group : groups) {
    if (!std::isfinite(group.learning_rate) || group.learning_rate < 0) {
      throw ConfigError(fmt::format("learning rate {}: expected 0 or more", group.learning_rate));
    }
    rules.push_back(rule_of(choices_.rule, group));
  }
  for (const Parameter& parameter : parameters_) {
    if (parameter.group < static_cast<std::int64_t>(groups.size())) continue;
    throw ConfigError(fmt::format("{} is of group {}, the step has {}", in_quotes(parameter.name),
                                  parameter.group, groups.size()));
  }
  if (!std::isfinite(gradient_scale) || gradient_scale <= 0) {
    throw ConfigError(fmt::format("gradient scale {}: expected more than 0", gradient_scale));
  }
  if (std::isnan(clip) || clip < 0) {
    throw ConfigError(fmt::format("clip {}: expected 0 or more, 0 for none", clip));
  }
  for (std::size_t p = 0; p < gradient_status_.size(); ++p) {
    if (gradient_status_[p].is_ready) continue;
    throw ConfigError(
        fmt::format("step with {} of {} gradients: that of {} is missing, call gradient_ready()",
                    ready_, parameters(), in_quotes(parameters_[p].name)));
  }
  states::GradientNorm norm;
  issue([&] {
    // Before the norm is waited for: updates follow what the caller had queued when it called.
    foreign(stream).record(*behind_caller_);
    norm = find_norm(clip, gradient_scale);
  });
  const bool applied = norm.scale.apply != 0;
  if (applied) {
    issue([&] {
      const std::shared_ptr<const StepNumbers> numbers = step_numbers(rules, groups);
      *memory_.host_scale() = norm.scale;  // compute has read the last one: it made the norm since
      update_on_host(numbers, norm.scale);
      // Behind the norm's copy and not before it: the norm reads no weights and need not wait.
      compute_.wait(*behind_caller_);
      queue_copy(compute_, memory_.scale(), memory_.host_scale(), sizeof(StepScale), up_bytes_);
      update_resident(numbers);
      update_streamed(numbers);
    });
    ++info_.step;
    fetching_ = false;
  } else {
    // No update will follow the copies down, so nothing else tells when they have ended.
    issue([&] { gradients_.synchronize(); });
    in_use_.clear();
  }
  for (GradientStatus& status : gradient_status_) {
    if (!applied || status.is_left_out) continue;
    status.is_awaited = false;
    ++status.steps;
  }
  forget_gradients();
  return {.step = info_.step,
          .norm = norm.value,
          .clip_factor =
              applied ? static_cast<double>(norm.scale.gradient_scale) * gradient_scale : 0.0,
          .applied = applied,
          .first_bad = norm.first_bad_tensor};
}

std::shared_ptr<const Optimizer::StepNumbers> Optimizer::step_numbers(
    const std::vector<states::Rule>& rules, std::span<const GroupStep> groups) const {
  auto made = std::make_shared<StepNumbers>(parameters_.size());
  // Most parameters take what the one before them takes.
  std::optional<std::tuple<std::int64_t, bool, std::int64_t>> last;
  kernels::Step step;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const GradientStatus& status = gradient_status_[p];
    if (status.is_left_out) continue;
    const Parameter& of = parameters_[p];
    const std::tuple now(of.group, of.decays, status.steps);
    if (last != now) {
      step = states::step_numbers(rules[to_size(of.group)], groups[to_size(of.group)].learning_rate,
                                  status.steps + 1, of.decays, info_.seed);
      last = now;
    }
    (*made)[p] = step;
  }
  return made;
}

states::GradientNorm Optimizer::find_norm(double clip, double gradient_scale) {
  // The CPU's last step has long ended: its weights were waited for. Making sure of it bounds how
  // far events can be recorded ahead of the lanes that wait for them.
  host_ended_->synchronize();
  // All gradients are ready, so their sums are queued on compute before this copy.
  queue_copy(compute_, memory_.host_squares(), memory_.squares(), 8 * map_.squares, down_bytes_);
  compute_.record(*norm_known_);
  norm_known_->synchronize();
  lanes_.check();
  return states::global_norm(map_, memory_.host_squares(), clip, gradient_scale);
}

void Optimizer::update(std::size_t c, std::byte* state, bool on_host, const StepNumbers& numbers,
                       const StepScale* scale) {
  const auto index = static_cast<std::int64_t>(c);
  const auto step_of = [&](int parameter) {
    const std::optional<kernels::Step>& step = numbers[parameter];
    return step ? &*step : nullptr;
  };
  if (on_host) {
    const Memory::Home& home = memory_.home(c);
    const auto updates = states::updates_of(map_, index, state, step_of, [&](const Part& part) {
      const Parameter& of = parameters_[part.parameter];
      return states::PartMemory{home.weight + part.in_chunk * size_of(of.weight_type),
                                home.gradient + part.in_chunk * size_of(of.gradient_type)};
    });
    return host_library_->ops({.stream = &host_})->update_spans(updates, scale);
  }
  // Memory on the device is the caller's, a tensor each.
  const auto updates = states::updates_of(map_, index, state, step_of, [&](const Part& part) {
    const Parameter& of = parameters_[part.parameter];
    return states::PartMemory{of.weight + part.in_parameter * size_of(of.weight_type),
                              of.gradient + part.in_parameter * size_of(of.gradient_type)};
  });
  device_library_->ops({.stream = &compute_})->update_spans(updates, scale);
}

void Optimizer::update_on_host(const std::shared_ptr<const StepNumbers>& numbers,
                               const StepScale& scale) {
  if (hosted_.empty()) return;
  // The caller may still read the weights that are about to be written.
  weights_.wait(*behind_caller_);
  for (const std::size_t c : hosted_) {
    ChunkStatus& status = chunk_status_[c];
    host_.wait(*status.down);
    queue(host_,
          [this, c, numbers, scale] { update(c, memory_.home(c).state, true, *numbers, &scale); });
    host_.record(*status.updated);
    weights_.wait(*status.updated);
    const Bytes element = size_of(map_.chunks[c].kind.weight_type);
    for (const Part& part : map_.chunks[c].parts) {
      if (!(*numbers)[part.parameter]) continue;
      queue_copy(weights_, parameters_[part.parameter].weight + part.in_parameter * element,
                 memory_.home(c).weight + part.in_chunk * element, part.count * element, up_bytes_);
    }
    weights_.record(*status.done);
  }
  host_.record(*host_ended_);
}

void Optimizer::update_resident(const std::shared_ptr<const StepNumbers>& numbers) {
  for (const std::size_t c : resident_) {
    queue(compute_, [this, c, numbers] {
      update(c, memory_.home(c).state, false, *numbers, memory_.scale());
    });
    compute_.record(*chunk_status_[c].done);
  }
}

void Optimizer::update_streamed(const std::shared_ptr<const StepNumbers>& numbers) {
  for (std::size_t i = 0; i < streamed_.size(); ++i) {
    const std::size_t c = streamed_[i];
    const std::size_t slot = i % memory_.slots();
    compute_.wait(*chunk_status_[c].in);
    queue(compute_, [this, c, slot, numbers] {
      update(c, memory_.slot(slot), false, *numbers, memory_.scale());
    });
    compute_.record(*chunk_status_[c].done);
    out_.wait(*chunk_status_[c].done);
    queue_copy(out_, memory_.home(c).state, memory_.slot(slot), map_.chunks[c].state_bytes(),
               down_bytes_);
    out_.record(*out_of_slot_[slot]);
    // The place is free once this chunk is out: the next state that belongs there follows.
    if (i + memory_.slots() < streamed_.size()) fetch(i + memory_.slots());
  }
}

}  // namespace ebb::hybrid
