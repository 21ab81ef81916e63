// Gradients of groups of micro-batches, on one rank or several. They leave the device as they are
// made, and are added up to their group's sum in host memory, where a group is more than one
// micro-batch. With the group's last one each chunk's plane goes to the chunk's owner, which adds
// the planes of a round in the order of their groups. Exchanges come in the same order on all
// ranks, so that none waits for one that waits for it; a rank that has no group in the last round
// only adds, behind its last pass.
#include <algorithm>

#include <fmt/format.h>

#include "plan/exchange.h"
#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class GroupedGradients final : public Rule {
 public:
  bool applies(const Workload& work) const override { return work.ranks.grouped(); }

  void start(Step& step) override {
    for (const Block& block : step.work.blocks) {
      groups_.emplace_back(std::max<std::size_t>(1, block.pieces.size()), -1);
    }
    totals_.assign(step.program.chunks.size(), -1);
  }

  void before_backwards(Step& step) override {
    on_their_way_ = step.stream("gradients");
    arrived_ = step.stream("gradients in host memory");
    make_streams(step);
  }

  void before_backward(Step& step, int b) override {
    step.gradients[b] = step.object(
        Tier::device, Purpose::gradients, step.at_hand(b).count * step.work.gradient_bytes,
        step.name_of(b) + " gradient",
        {step.micro == step.last_micro() ? step.tide.gradients : End::low, on_their_way_});
  }

  void after_backward(Step& step, int b) override {
    const TensorRange made = step.at_hand(b);
    if (made.count == 0) return;
    const std::int64_t size = step.work.ranks.group_size();
    ObjectId& group = groups_[b][std::max(0, step.piece)];
    if (step.micro % size == 0) {
      group =
          step.object(Tier::host, Purpose::gradients, made.count * step.work.plane_bytes(),
                      step.name_of(b) + (size == 1 ? " gradient" : " sum of a group"),
                      size == 1 ? Step::Placing{.stream = sent_} : Step::Placing{.end = End::high});
    }
    for (const int c : step.chunks_at_hand(b)) {
      const Chunk& chunk = step.chunk(c);
      const auto range = [&](Bytes each) {
        return Range{(chunk.first - made.first) * each, chunk.count * each};
      };
      const Part gradient{step.gradients[b], range(step.work.gradient_bytes)};
      const Part plane{group, range(step.work.plane_bytes())};
      if (size == 1) {
        of_chunk(step, c, step.transfer(gradient, plane));
      } else {
        add_to_group(step, c, gradient, plane);
      }
    }
    if (step.micro % size == size - 1) exchange(step, b, step.micro / size, group);
  }

  void finish(Step& step) override {
    const Ranks& ranks = step.work.ranks;
    if (ranks.has_group(ranks.rounds() - 1)) return;
    make_streams(step);
    for (int b = step.blocks() - 1; b >= 0; --b) {
      const auto pieces = step.is_cut(b) ? static_cast<int>(step.block(b).pieces.size()) : 0;
      for (step.piece = pieces > 0 ? 0 : -1; step.piece < pieces; ++step.piece) {
        exchange(step, b, ranks.rounds() - 1, -1);
      }
    }
    step.piece = -1;
  }

 private:
  void make_streams(Step& step) {
    sent_ = step.stream("gradients to send");
    received_ = step.stream("gradients of other ranks");
  }

  static void of_chunk(const Step& step, int c, Task& task) {
    task.chunk = c;
    task.block = step.chunk(c).block;
    task.micro = step.micro;
  }

  void add_to_group(Step& step, int c, const Part& gradient, const Part& plane) {
    const ObjectId here = step.object(Tier::host, Purpose::gradients, gradient.range.bytes,
                                      fmt::format("chunk {} gradient", c), {.stream = arrived_});
    of_chunk(step, c, step.transfer(gradient, {here}));
    Task& add = step.on_cpu(Op::add_to_group, Draw::sum,
                            {reads(Role::gradient, here), writes(Role::sum, plane)});
    of_chunk(step, c, add);
    add.moved = gradient.range.bytes + 2 * plane.range.bytes;
  }

  // The group's object is -1 where this rank has none in this round.
  void exchange(Step& step, int b, std::int64_t round, ObjectId group) {
    const Ranks& ranks = step.work.ranks;
    const TensorRange made = step.at_hand(b);
    const List<int> chunks = step.chunks_at_hand(b);
    const auto messages = plane_messages(step.work, step.program.chunks, chunks, made.first, round);
    // What the tasks of a round are counted by, on ranks without a pass for it, too.
    const auto last_micro = static_cast<int>((round + 1) * ranks.group_size() - 1);
    const Bytes comes = incoming_bytes(messages);
    ObjectId received = -1;
    if (comes > 0) {
      received = step.object(Tier::host, Purpose::gradients, comes,
                             step.name_of(b) + " gradients of others", {.stream = received_});
    }
    if (!messages.empty()) {
      Task& task =
          step.on_network(Op::exchange_gradients, b,
                          {reads(Role::gradient, group), writes(Role::received, received)});
      task.micro = last_micro;
      task.moved = moved_bytes(messages);
    }
    const bool last = round + 1 == ranks.rounds();
    for (const int c : chunks) {
      if (!step.owns(c)) continue;
      const Chunk& chunk = step.chunk(c);
      const Bytes bytes = chunk.count * step.work.gradient_bytes;
      if (totals_[c] < 0 && needs_total(ranks)) {
        totals_[c] = step.object(Tier::host, Purpose::gradients, 4 * chunk.count,
                                 fmt::format("chunk {} sum", c), {.end = End::high});
      }
      const ObjectId finished =
          !last ? -1
                : step.object(Tier::host, Purpose::gradients, bytes,
                              fmt::format("chunk {} gradient", c), {.end = End::high});
      const Range of_others = incoming_of(messages, c);
      Task& sum =
          step.on_cpu(Op::sum_groups, Draw::sum,
                      {reads(Role::gradient, group,
                             {(chunk.first - made.first) * step.work.plane_bytes(),
                              chunk.count * step.work.plane_bytes()}),
                       reads(Role::received, of_others.bytes > 0 ? received : -1, of_others),
                       writes(Role::sum, totals_[c]), writes(Role::finished, finished),
                       writes(Role::squares, last ? step.squares : -1)});
      of_chunk(step, c, sum);
      sum.micro = last_micro;
      sum.moved = ranks.senders(round) * chunk.count * (step.work.plane_bytes() + 8);
      if (!last) continue;
      step.finished[c] = {finished, {0, bytes}};
      step.finished_by[c] = step.next_task();
    }
  }

  // One plane is the sum; of two that were made as gradients the second takes in the first.
  static bool needs_total(const Ranks& ranks) {
    return ranks.groups > 2 || (ranks.groups == 2 && ranks.group_size() > 1);
  }

  List<List<ObjectId>> groups_;    // by block and piece: this group's gradient or sum
  List<ObjectId> totals_;          // by chunk: the sum of groups so far
  int on_their_way_ = -1;          // streams of this pass: what leaves the device,
  int arrived_ = -1;               // what has,
  int sent_ = -1, received_ = -1;  // and what crosses the network
};

}  // namespace

std::unique_ptr<Rule> grouped_gradients_rule() { return std::make_unique<GroupedGradients>(); }

}  // namespace ebb::plan
