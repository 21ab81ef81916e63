// The inputs of the first blocks wait in host memory, or below it, between their forward and their
// backward.
#include "plan/rules/step.h"

#include <fmt/format.h>

namespace ebb::plan {
namespace {

class Inputs final : public Rule {
 public:
  void start(Step& step) override { waiting_.assign(step.inputs.size(), -1); }

  void after_forward(Step& step, int block) override {
    if (!is_sent(step, block)) return;
    ObjectId& there = waiting_[block];
    const bool on_disk = step.layer_of(block) < step.choices.disk_inputs;
    there = step.object(on_disk ? step.choices.below : Tier::host, Purpose::activations,
                        step.work.input, name(step, block));
    Task& send = step.transfer({step.inputs[block], {0, step.work.input}}, {there});
    send.block = block;
    send.micro = step.micro;
  }

  void before_backwards(Step& step) override {
    begins_.resize(step.work.blocks.size());
    if (step.choices.host_inputs > 0) back_ = step.stream("inputs");
  }

  void before_backward(Step& step, int block) override {
    begins_[block] = step.next_task();
    if (!is_sent(step, block)) return;
    const ObjectId here = step.object(Tier::device, Purpose::activations, step.work.input,
                                      name(step, block), {.stream = back_});
    step.inputs[block] = here;
    Fetch& fetch = step.fetch({waiting_[block], {0, step.work.input}}, {here});
    // Not before the block that is as many ahead as may be on their way: the first ones would lie
    // on the device from the head on.
    const auto ahead = static_cast<int>(step.choices.depth) - 1;
    const bool at_once = block + ahead >= step.blocks() - 1;
    fetch.earliest = at_once ? step.backward_start : begins_[block + ahead];
    fetch.task.block = block;
    fetch.task.micro = step.micro;
  }

 private:
  static bool is_sent(const Step& step, int block) {
    const int layer = step.layer_of(block);
    return step.work.input > 0 && layer >= 0 && layer < step.choices.host_inputs;
  }
  static std::string name(const Step& step, int block) {
    return fmt::format("input {}", step.layer_of(block));
  }

  List<ObjectId> waiting_;  // by block
  List<TaskId> begins_;     // by block, of its backward in this pass
  int back_ = -1;           // the stream of those that come back in this pass
};

}  // namespace

std::unique_ptr<Rule> inputs_rule() { return std::make_unique<Inputs>(); }

}  // namespace ebb::plan
