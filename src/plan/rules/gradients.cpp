// Each micro-batch's gradients are added up and finished with the last: on the device for whole
// blocks, or by the CPU, chunk by chunk as they come down. Sums of the CPU's are in host memory, or
// below it and come for every micro-batch. The first gradient is the sum until the second comes. In
// host memory it all stays in its place, up to the gradient that is finished, so that what comes
// down waits for no room; and two gradients may wait for the third.
#include <algorithm>

#include <fmt/format.h>

#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class Gradients final : public Rule {
 public:
  bool applies(const Workload& work) const override { return !work.ranks.grouped(); }

  void start(Step& step) override {
    for (const Block& block : step.work.blocks) {
      on_device_.emplace_back(std::max<std::size_t>(1, block.pieces.size()));
    }
    by_cpu_.resize(step.program.chunks.size());
  }

  void before_backwards(Step& step) override {
    on_their_way_ = step.stream("gradients");
    arrived_ = step.stream("gradients in host memory");
    sums_ = step.stream("sums");
    rests_ = step.stream("lower planes of sums");
  }

  void before_backward(Step& step, int b) override {
    const bool last = step.micro == step.last_micro();
    const bool stays = step.micro == 0 && !last && gathers(step, b);
    // Only the last backward pass meets the tide. What an earlier one adds up waits at the high
    // end; the rest stays at the low end, clear of the states that are still on their way out.
    const End end = last ? step.tide.gradients : stays ? End::high : End::low;
    const bool leaves = !stays && sends(step, b) && !(last && gathers(step, b));
    step.gradients[b] = step.object(
        Tier::device, Purpose::gradients, step.at_hand(b).count * step.work.gradient_bytes,
        step.name_of(b) + " gradient", {end, leaves ? on_their_way_ : -1});
  }

  void after_backward(Step& step, int b) override {
    const TensorRange made = step.at_hand(b);
    if (made.count == 0) return;
    // With one micro-batch the gradient is final on the device, wherever it goes.
    if (step.last_micro() == 0 || gathers(step, b)) collect_on_device(step, b);
    for (const int c : step.chunks_at_hand(b)) {
      const Part gradient{step.gradients[b],
                          {(step.chunk(c).first - made.first) * step.work.gradient_bytes,
                           step.chunk(c).count * step.work.gradient_bytes}};
      if (step.chunk(c).sums != Tier::device) {
        collect_by_cpu(step, c, gradient);
      } else if (step.micro == step.last_micro()) {
        step.finished[c] = gradient;
      }
      step.finished_by[c] = step.next_task();
    }
  }

 private:
  // The state of a block's sum on the device, or of its piece's, before the last micro-batch.
  struct DeviceSum {
    ObjectId first = -1;  // the first gradient
    ObjectId sum = -1;    // from the second on, where there are more than two
    ObjectId so_far() const { return sum >= 0 ? sum : first; }
  };
  // The state of a chunk's sum in host memory, or below it.
  struct HostSum {
    ObjectId sum = -1;   // the first gradient, then the sum, then the gradient of the step
    ObjectId rest = -1;  // the second gradient, then the sum's lower plane, where it has two
    TaskId written = 0;  // not before this task is it what it was made last
  };

  // Whether gradients of what is at hand are gathered on the device, and whether some leave it.
  static bool gathers(const Step& step, int b) {
    const auto chunks = step.chunks_at_hand(b);
    return std::any_of(chunks.begin(), chunks.end(),
                       [&](int c) { return step.chunk(c).sums == Tier::device; });
  }
  static bool sends(const Step& step, int b) {
    const auto chunks = step.chunks_at_hand(b);
    return std::any_of(chunks.begin(), chunks.end(),
                       [&](int c) { return step.chunk(c).sums != Tier::device; });
  }

  void collect_on_device(Step& step, int b) {
    const std::int64_t count = step.at_hand(b).count;
    DeviceSum& sum = on_device_[b][std::max(0, step.piece)];
    const ObjectId gradient = step.gradients[b];
    const bool last = step.micro == step.last_micro();
    if (step.micro == 0 && !last) {
      sum.first = gradient;
      return;
    }
    if (step.micro == 1 && !last) {
      sum.sum = step.object(Tier::device, Purpose::gradients, count * step.work.sum_bytes(),
                            step.name_of(b) + " sum", {.end = End::high});
    }
    Task& task =
        last ? step.compute(Op::finish_gradient, b,
                            {writes(Role::gradient, gradient), reads(Role::sum, sum.so_far()),
                             writes(Role::report, step.report)})
             : step.compute(Op::add_gradient, b,
                            {reads(Role::gradient, gradient),
                             reads(Role::earlier, step.micro == 1 ? sum.first : -1),
                             writes(Role::sum, sum.sum)});
    task.cost.bytes = static_cast<double>(count * step.work.sum_traffic(step.micro));
  }

  void collect_by_cpu(Step& step, int c, const Part& gradient) {
    HostSum& sum = by_cpu_[c];
    const Tier home = step.chunk(c).sums;
    const bool last = step.micro == step.last_micro();
    const auto place = [&](Tier tier, const char* name, Step::Placing placing) {
      return step.object(tier, Purpose::gradients, gradient.range.bytes,
                         fmt::format("chunk {} {}", c, name), placing);
    };
    const auto of_chunk = [&](Task& task) {
      task.chunk = c;
      task.block = step.chunk(c).block;
      task.micro = step.micro;
    };
    const auto send = [&](const Part& from, ObjectId to) {
      of_chunk(step.transfer(from, {to}));
      sum.written = step.next_task();
    };
    if (step.micro == 0) send(gradient, sum.sum = place(home, "gradient", {.end = End::high}));
    if (last) step.finished[c] = {sum.sum, {0, gradient.range.bytes}};
    if (step.micro == 0) return;
    if (step.micro == 1 && step.work.sums_in_planes()) {
      return send(gradient, sum.rest = place(home, "second gradient", {.end = End::high}));
    }
    const ObjectId arrived = place(Tier::host, "gradient", {.stream = arrived_});
    of_chunk(step.transfer(gradient, {arrived}));
    // Where the CPU adds: in its place, or brought from below host memory and taken back.
    const auto brought = [&](ObjectId there, int stream) {
      if (home == Tier::host || there < 0) return there;
      const ObjectId here = place(Tier::host, "sum", {.stream = stream});
      Fetch& fetch = step.fetch({there, {0, gradient.range.bytes}}, {here});
      fetch.earliest = sum.written;
      of_chunk(fetch.task);
      return here;
    };
    const ObjectId here = brought(sum.sum, sums_), rest = brought(sum.rest, rests_);
    Task& task =
        last ? step.on_cpu(Op::finish_gradient, Draw::sum,
                           {writes(Role::sum, here), reads(Role::sum_rest, rest),
                            reads(Role::gradient, arrived), writes(Role::squares, step.squares)})
             : step.on_cpu(Op::add_gradient, Draw::sum,
                           {writes(Role::sum, here), writes(Role::sum_rest, rest),
                            reads(Role::gradient, arrived)});
    of_chunk(task);
    task.moved = step.chunk(c).count * step.work.sum_traffic(step.micro);
    if (here != sum.sum) send({here, {0, gradient.range.bytes}}, sum.sum);
    if (rest != sum.rest && !last) send({rest, {0, gradient.range.bytes}}, sum.rest);
  }

  List<List<DeviceSum>> on_device_;  // by block and piece
  List<HostSum> by_cpu_;             // by chunk
  int on_their_way_ = -1;            // streams of this pass: what leaves the device, and what has
  int arrived_ = -1;
  int sums_ = -1, rests_ = -1;  // and sums that come from below host memory, by plane
};

}  // namespace

std::unique_ptr<Rule> gradients_rule() { return std::make_unique<Gradients>(); }

}  // namespace ebb::plan
