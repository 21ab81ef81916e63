// The fp32 gradient of a tied embedding goes from the head to the embedding's backward. Whole it
// waits on the device. A piece of it waits there as well, or, where all of the piece's gradients
// are gathered elsewhere, leaves as it is made and comes back for the embedding.
#include <algorithm>

#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class TiedSums final : public Rule {
 public:
  void start(Step& step) override {
    if (step.work.tied_sum == 0) return;
    sums_.resize(std::max<std::size_t>(1, step.block(step.table()).pieces.size()));
  }

  void before_backwards(Step& step) override {
    if (step.work.tied_sum == 0 || !step.is_cut(step.table())) return;
    leaving_ = step.stream("tied sums");
    back_ = step.stream("tied sums that come back");
  }

  void before_tied_sum(Step& step) override {
    // Only the last backward pass meets the tide.
    const End end = step.micro == step.last_micro() ? End::high : End::low;
    step.tied_sum = step.object(Tier::device, Purpose::gradients, bytes(step), name(step),
                                {end, home(step) == Tier::device ? -1 : leaving_});
  }

  void after_tied_sum(Step& step) override {
    Sum& sum = at_hand(step);
    sum.object = step.tied_sum;
    if (home(step) == Tier::device) return;
    sum.object = step.object(home(step), Purpose::gradients, bytes(step), name(step));
    Task& send = step.transfer({step.tied_sum, {0, bytes(step)}}, {sum.object});
    send.block = step.table();
    send.micro = step.micro;
    sum.written = step.next_task();
  }

  void before_backward(Step& step, int b) override {
    const TaskId before = std::exchange(begun_, step.next_task());
    if (step.work.tied_sum == 0 || step.block(b).kind != BlockKind::embedding) return;
    const Sum& sum = at_hand(step);
    step.tied_sum = sum.object;
    // What the vocabulary does not reach has none.
    if (sum.object < 0 || step.program[sum.object].tier == Tier::device) return;
    step.tied_sum =
        step.object(Tier::device, Purpose::gradients, bytes(step), name(step), {.stream = back_});
    Fetch& fetch = step.fetch({sum.object, {0, bytes(step)}}, {step.tied_sum});
    // The first ones would lie on the device from the head on.
    fetch.earliest = std::max(sum.written, before);
    fetch.task.block = b;
    fetch.task.micro = step.micro;
  }

 private:
  struct Sum {
    ObjectId object = -1;
    TaskId written = 0;
  };

  Sum& at_hand(const Step& step) { return sums_[std::max(0, step.piece)]; }
  static std::string name(const Step& step) {
    return step.piece < 0 ? "tied sum" : step.name_of(step.table()) + " tied sum";
  }
  static Bytes bytes(const Step& step) {
    return step.piece < 0 ? step.work.tied_sum : 4 * step.at_hand(step.table()).count;
  }
  // Where it waits.
  static Tier home(const Step& step) {
    if (step.piece < 0) return Tier::device;
    const List<int> chunks = step.chunks_at_hand(step.table());
    const bool stays = std::any_of(chunks.begin(), chunks.end(),
                                   [&](int c) { return step.chunk(c).sums == Tier::device; });
    return stays ? Tier::device : step.chunk(chunks.front()).sums;
  }

  List<Sum> sums_;                // by piece, of this micro-batch
  int leaving_ = -1, back_ = -1;  // streams of this pass
  TaskId begun_ = 0;              // of the block or piece whose backward is at hand
};

}  // namespace

std::unique_ptr<Rule> tied_sums_rule() { return std::make_unique<TiedSums>(); }

}  // namespace ebb::plan
