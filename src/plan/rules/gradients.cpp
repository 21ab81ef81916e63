// Each micro-batch's gradients are added up and finished with the last: on the device for whole
// blocks, or in host memory by the CPU, chunk by chunk as they come down. The first gradient is the
// sum until the second comes.
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
  // What there is of a sum before the last micro-batch.
  struct Sum {
    ObjectId first = -1;  // the first gradient
    ObjectId sum = -1;    // from the second on, where there are more than two
    ObjectId so_far() const { return sum >= 0 ? sum : first; }
  };

  static bool has(const Step& step, int b, Tier sums) {
    const auto& chunks = step.chunks_of[Step::at(b)];
    return std::any_of(chunks.begin(), chunks.end(),
                       [&](int c) { return step.chunk(c).sums == sums; });
  }

  // The task that takes the next gradient in: read and written per parameter, by Workload.
  static std::vector<Use> uses(const Step& step, const Part& gradient, const Sum& sum,
                               ObjectId squares, Role role) {
    if (step.micro == step.last_micro()) {
      return {writes(Role::gradient, gradient), reads(Role::sum, sum.so_far()),
              writes(role, squares)};
    }
    return {reads(Role::gradient, gradient), reads(Role::earlier, step.micro == 1 ? sum.first : -1),
            writes(Role::sum, sum.sum)};
  }

  void collect_on_device(Step& step, int b) {
    Sum& sum = on_device_[Step::at(b)];
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
    Task& task = step.compute(last ? Op::finish_gradient : Op::add_gradient, b,
                              uses(step, {gradient}, sum, step.report, Role::report));
    task.cost.bytes =
        static_cast<double>(step.block(b).parameters * step.work.sum_traffic(step.micro));
  }

  void collect_in_host_memory(Step& step, int c, const Part& gradient) {
    Sum& sum = in_host_memory_[Step::at(c)];
    const bool last = step.micro == step.last_micro();
    const bool stays = last || step.micro == 0;
    const ObjectId arrived = step.object(
        Tier::host, Purpose::gradients, gradient.range.bytes, fmt::format("chunk {} gradient", c),
        {step.micro == 0 ? End::high : End::low, stays ? -1 : arrived_});
    Task& send = step.transfer(gradient, {arrived});
    send.chunk = c;
    send.block = step.chunk(c).block;
    send.micro = step.micro;
    if (last) step.finished[Step::at(c)] = {arrived, {0, gradient.range.bytes}};
    if (step.micro == 0) {
      sum.first = arrived;
      return;
    }
    if (step.micro == 1 && !last) {
      sum.sum =
          step.object(Tier::host, Purpose::gradients, step.chunk(c).count * step.work.sum_bytes(),
                      fmt::format("chunk {} sum", c));
    }
    Task& task = step.on_cpu(last ? Op::finish_gradient : Op::add_gradient, Draw::sum,
                             uses(step, {arrived}, sum, step.squares, Role::squares));
    task.chunk = c;
    task.block = step.chunk(c).block;
    task.micro = step.micro;
    task.moved = step.chunk(c).count * step.work.sum_traffic(step.micro);
  }

  std::vector<Sum> on_device_;       // by block
  std::vector<Sum> in_host_memory_;  // by chunk
  int on_their_way_ = -1;            // streams of this pass: what leaves the device, and what has
  int arrived_ = -1;
};

}  // namespace

std::unique_ptr<Rule> gradients_rule() { return std::make_unique<Gradients>(); }

}  // namespace ebb::plan
