// Each micro-batch's gradients are added up and finished with the last: on the device for whole
// blocks, or in host memory by the CPU, chunk by chunk as they come down. The first gradient is the
// sum until the second comes. In host memory it all stays in its place, up to the gradient that is
// finished, so that what comes down waits for no room; and two gradients may wait for the third.
#include <algorithm>

#include <fmt/format.h>

#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class Gradients final : public Rule {
 public:
  void start(Step& step) override {
    on_device_.resize(step.work.blocks.size());
    in_host_memory_.resize(step.program.chunks.size());
  }

  void before_backwards(Step& step) override {
    on_their_way_ = step.stream("gradients");
    arrived_ = step.stream("gradients in host memory");
  }

  void before_backward(Step& step, int b) override {
    const bool last = step.micro == step.last_micro();
    const bool stays = step.micro == 0 && !last && has(step, b, Tier::device);
    // Only the last backward pass meets the tide. What an earlier one adds up waits at the high
    // end; the rest stays at the low end, clear of the states that are still on their way out.
    const End end = last ? step.tide.gradients : stays ? End::high : End::low;
    const bool leaves = !stays && has(step, b, Tier::host) && !(last && has(step, b, Tier::device));
    step.gradients[Step::at(b)] = step.object(
        Tier::device, Purpose::gradients, step.block(b).parameters * step.work.gradient_bytes,
        step.block(b).name + " gradient", {end, leaves ? on_their_way_ : -1});
  }

  void after_backward(Step& step, int b) override {
    if (step.block(b).parameters == 0) return;
    // With one micro-batch the gradient is final on the device, wherever it goes.
    if (step.last_micro() == 0 || has(step, b, Tier::device)) collect_on_device(step, b);
    for (const int c : step.chunks_of[Step::at(b)]) {
      const Part gradient{step.gradients[Step::at(b)],
                          {step.chunk(c).first * step.work.gradient_bytes,
                           step.chunk(c).count * step.work.gradient_bytes}};
      if (step.chunk(c).sums == Tier::host) {
        collect_in_host_memory(step, c, gradient);
      } else if (step.micro == step.last_micro()) {
        step.finished[Step::at(c)] = gradient;
      }
      step.finished_by[Step::at(c)] = step.next_task();
    }
  }

 private:
  // What there is of a block's sum on the device before the last micro-batch.
  struct DeviceSum {
    ObjectId first = -1;  // the first gradient
    ObjectId sum = -1;    // from the second on, where there are more than two
    ObjectId so_far() const { return sum >= 0 ? sum : first; }
  };
  // What there is of a chunk's sum in host memory.
  struct HostSum {
    ObjectId sum = -1;   // the first gradient, then the sum, then the gradient of the step
    ObjectId rest = -1;  // the second gradient, then the sum's lower plane, where it has two
  };

  static bool has(const Step& step, int b, Tier sums) {
    const auto& chunks = step.chunks_of[Step::at(b)];
    return std::any_of(chunks.begin(), chunks.end(),
                       [&](int c) { return step.chunk(c).sums == sums; });
  }

  void collect_on_device(Step& step, int b) {
    DeviceSum& sum = on_device_[Step::at(b)];
    const ObjectId gradient = step.gradients[Step::at(b)];
    const bool last = step.micro == step.last_micro();
    if (step.micro == 0 && !last) {
      sum.first = gradient;
      return;
    }
    if (step.micro == 1 && !last) {
      sum.sum = step.object(Tier::device, Purpose::gradients,
                            step.block(b).parameters * step.work.sum_bytes(),
                            step.block(b).name + " sum", {.end = End::high});
    }
    Task& task =
        last ? step.compute(Op::finish_gradient, b,
                            {writes(Role::gradient, gradient), reads(Role::sum, sum.so_far()),
                             writes(Role::report, step.report)})
             : step.compute(Op::add_gradient, b,
                            {reads(Role::gradient, gradient),
                             reads(Role::earlier, step.micro == 1 ? sum.first : -1),
                             writes(Role::sum, sum.sum)});
    task.cost.bytes =
        static_cast<double>(step.block(b).parameters * step.work.sum_traffic(step.micro));
  }

  void collect_in_host_memory(Step& step, int c, const Part& gradient) {
    HostSum& sum = in_host_memory_[Step::at(c)];
    const bool last = step.micro == step.last_micro();
    const auto place = [&](const char* name, Step::Placing placing) {
      return step.object(Tier::host, Purpose::gradients, gradient.range.bytes,
                         fmt::format("chunk {} {}", c, name), placing);
    };
    const auto send = [&](ObjectId to) {
      Task& task = step.transfer(gradient, {to});
      task.chunk = c;
      task.block = step.chunk(c).block;
      task.micro = step.micro;
    };
    if (step.micro == 0) send(sum.sum = place("gradient", {.end = End::high}));
    if (last) step.finished[Step::at(c)] = {sum.sum, {0, gradient.range.bytes}};
    if (step.micro == 0) return;
    if (step.micro == 1 && step.work.sums_in_planes()) {
      return send(sum.rest = place("second gradient", {.end = End::high}));
    }
    const ObjectId arrived = place("gradient", {.stream = arrived_});
    send(arrived);
    Task& task =
        last ? step.on_cpu(Op::finish_gradient, Draw::sum,
                           {writes(Role::sum, sum.sum), reads(Role::sum_rest, sum.rest),
                            reads(Role::gradient, arrived), writes(Role::squares, step.squares)})
             : step.on_cpu(Op::add_gradient, Draw::sum,
                           {writes(Role::sum, sum.sum), writes(Role::sum_rest, sum.rest),
                            reads(Role::gradient, arrived)});
    task.chunk = c;
    task.block = step.chunk(c).block;
    task.micro = step.micro;
    task.moved = step.chunk(c).count * step.work.sum_traffic(step.micro);
  }

  std::vector<DeviceSum> on_device_;     // by block
  std::vector<HostSum> in_host_memory_;  // by chunk
  int on_their_way_ = -1;  // streams of this pass: what leaves the device, and what has
  int arrived_ = -1;
};

}  // namespace

std::unique_ptr<Rule> gradients_rule() { return std::make_unique<Gradients>(); }

}  // namespace ebb::plan
