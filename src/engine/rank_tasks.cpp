// Tasks of groups of micro-batches and of several ranks: gradients are added up by group, exchanged
// and added in the order of groups; losses, sums of squares and weights go to all. The orders here
// are the promise that the number of ranks changes no bit.
#include <algorithm>
#include <cstring>

#include "dist/communicator.h"
#include "engine/training_tasks.h"
#include "plan/exchange.h"

namespace ebb::engine {

using plan::Role;

namespace {

// A sum begins with what changes nothing: -0 is the zero that does so to every number. One of more
// than two micro-batches begins with +0, as one that is made without groups.
float first_zero(const plan::Ranks& ranks) { return ranks.micro_batches > 2 ? 0.0f : -0.0f; }

// Gradients to which a sum is added without being changed.
void fill_with_nothing(std::byte* gradient, DType type, std::int64_t count) {
  if (type == DType::f32) {
    std::fill_n(reinterpret_cast<float*>(gradient), count, -0.0f);
  } else {
    std::fill_n(reinterpret_cast<std::uint16_t*>(gradient), count, std::uint16_t{0x8000});
  }
}

}  // namespace

void TrainingTasks::add_to_group(TaskRun& run) {
  const std::int64_t count = chunk(run).count;
  auto* const sum = reinterpret_cast<float*>(run.write(Role::sum, count * 4));
  const std::byte* gradient = run.read(Role::gradient, count * work().gradient_bytes);
  const plan::Ranks& ranks = work().ranks;
  if (run.task.micro % ranks.group_size() == 0) std::fill_n(sum, count, first_zero(ranks));
  optimizer(run)->add_gradient(sum, gradient, settings_.gradient_type, count);
}

void TrainingTasks::exchange_gradients(TaskRun& run) {
  const std::int64_t round = run.task.micro / work().ranks.group_size();
  const auto messages =
      plan::plane_messages(work(), plan_.program.chunks, chunks(run), extent(run).first, round);
  const std::byte* const out =
      run.has(Role::gradient) ? run.read(Role::gradient, extent(run).count * work().plane_bytes())
                              : nullptr;
  std::byte* const in = run.write(Role::received, plan::incoming_bytes(messages));
  List<dist::Send> sends;
  List<dist::Receive> receives;
  for (const plan::PlaneMessage& message : messages) {
    if (message.comes) {
      receives.push_back({message.peer, in + message.range.first, message.range.bytes});
    } else {
      sends.push_back({message.peer, out + message.range.first, message.range.bytes});
    }
  }
  settings_.ranks->exchange(sends, receives);
}

// The planes of a round's groups, in their order: this rank's own and those that came.
void TrainingTasks::sum_groups(TaskRun& run) {
  const plan::Ranks& ranks = work().ranks;
  const std::int64_t count = chunk(run).count;
  const Bytes bytes = count * work().plane_bytes();
  const std::int64_t round = run.task.micro / ranks.group_size();
  const int senders = ranks.senders(round);
  const std::byte* own = run.read(Role::gradient, bytes);
  const int others = senders - (own == nullptr ? 0 : 1);
  const std::byte* received =
      run.read(Role::received, others == 0 ? 0 : (others - 1) * plan::align_up(bytes) + bytes);
  std::vector<const std::byte*> planes;
  for (int r = 0; r < senders; ++r) {
    if (r == ranks.rank) {
      planes.push_back(own);
    } else {
      planes.push_back(received);
      received += plan::align_up(bytes);
    }
  }
  // A micro-batch's gradient becomes the step's with the sum of those before; of larger groups all
  // are in the sum.
  const bool of_one = ranks.group_size() == 1;
  const DType plane_type = of_one ? settings_.gradient_type : DType::f32;
  const bool last = round + 1 == ranks.rounds();
  const std::byte* sum = nullptr;
  DType sum_type = DType::f32;
  auto ops = optimizer(run);
  if (run.has(Role::sum)) {
    auto* const total = reinterpret_cast<float*>(run.write(Role::sum, count * 4));
    const std::size_t end = planes.size() - (last && of_one ? 1 : 0);
    std::size_t next = 0;
    if (round == 0 && end >= 2) {
      ops->add_two_gradients(total, planes[0], planes[1], plane_type, count);
      next = 2;
    } else if (round == 0) {
      std::fill_n(total, count, first_zero(ranks));
    }
    for (; next < end; ++next) ops->add_gradient(total, planes[next], plane_type, count);
    sum = reinterpret_cast<const std::byte*>(total);
  } else if (planes.size() == 2 || !of_one) {
    sum = planes.front();
    sum_type = plane_type;
  }
  if (!last) return;
  const Bytes each = work().gradient_bytes;
  std::byte* const finished = run.write(Role::finished, count * each);
  if (of_one) {
    std::memcpy(finished, planes.back(), to_size(count * each));
  } else {
    fill_with_nothing(finished, settings_.gradient_type, count);
  }
  double* to = squares(run.write(Role::squares, report_bytes_));
  std::vector<kernels::GradientPart> parts;
  for (const states::Part& part : map_[run.task.chunk].parts) {
    parts.push_back({.gradient = finished + part.in_chunk * each,
                     .sum = sum == nullptr ? nullptr : sum + part.in_chunk * size_of(sum_type),
                     .partials = to + map_.first_square(part),
                     .count = part.count});
  }
  ops->finish_parts(parts, settings_.gradient_type, sum_type);
}

void TrainingTasks::place_losses(TaskRun& run) {
  if (!run.has(Role::report)) return;
  const std::int64_t count = work().micro_batches;
  const auto* own = reinterpret_cast<const double*>(run.read(Role::report, 8 * count));
  auto* all = reinterpret_cast<double*>(run.write(Role::squares, report_bytes_));
  for (std::int64_t m = 0; m < count; ++m) all[work().ranks.place_of(m)] = own[m];
}

// Each number goes from the rank that has it to the same place on all others.
void TrainingTasks::gather_report(TaskRun& run) {
  place_losses(run);
  auto* const all = reinterpret_cast<double*>(run.write(Role::squares, report_bytes_));
  double* const sums = squares(reinterpret_cast<std::byte*>(all));
  const plan::Ranks& ranks = work().ranks;
  List<dist::Send> sends;
  List<dist::Receive> receives;
  const auto share = [&](int owner, double* numbers, std::int64_t count) {
    if (owner != ranks.rank) return receives.push_back({owner, numbers, 8 * count});
    for (int peer = 0; peer < ranks.count; ++peer) {
      if (peer != ranks.rank) sends.push_back({peer, numbers, 8 * count});
    }
  };
  for (std::int64_t g = 0; g < ranks.groups; ++g) {
    share(static_cast<int>(g % ranks.count), all + g * ranks.group_size(), ranks.group_size());
  }
  for (std::size_t c = 0; c < map_.chunks.size(); ++c) {
    for (const states::Part& part : map_.chunks[c].parts) {
      share(plan_.program.chunks[c].owner, sums + map_.first_square(part),
            kernels::norm_blocks(part.count));
    }
  }
  settings_.ranks->exchange(sends, receives);
}

// The weights that the task uses are the block's chunks in order, each with as many planes.
void TrainingTasks::gather_weights(TaskRun& run) {
  const std::vector<int>& chunks = chunks_of_block_[to_size(run.task.block)];
  std::vector<const plan::Use*> uses;
  for (const plan::Use& use : run.task.uses) {
    if (use.role == Role::weights) uses.push_back(&use);
  }
  const std::size_t planes = uses.size() / chunks.size();
  const plan::Ranks& ranks = work().ranks;
  List<dist::Send> sends;
  List<dist::Receive> receives;
  for (std::size_t u = 0; u < uses.size(); ++u) {
    const plan::Use& use = *uses[u];
    const int owner = plan_.program.chunks[chunks[u / planes]].owner;
    const Bytes bytes = plan_.program.range_of(use).bytes;
    std::byte* const weights = run.at(use);
    if (owner != ranks.rank) {
      receives.push_back({owner, weights, bytes});
      continue;
    }
    for (int peer = 0; peer < ranks.count; ++peer) {
      if (peer != ranks.rank) sends.push_back({peer, weights, bytes});
    }
  }
  settings_.ranks->exchange(sends, receives);
}

}  // namespace ebb::engine
