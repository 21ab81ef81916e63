// A block's weights live on the device, or elsewhere: then they come up before its forward, and
// again before its backward, behind the blocks that compute; where it runs piece by piece, a
// piece's do.
#include "plan/rules/step.h"
#include "plan/weight_parts.h"

namespace ebb::plan {
namespace {

class Weights final : public Rule {
 public:
  void start(Step& step) override {
    homes_ = weight_homes(step.work, step.choices);
    if (step.choices.streamed_weights > 0) stream_ = step.stream("weights");
    add_weight_homes(step.program, step.work, homes_);
    step.weights = step.program.persistent.weights;
  }

  void before_forward(Step& step, int b) override { bring(step, b); }

  void before_backward(Step& step, int b) override {
    // The embedding's gradient asks for no weights.
    if (step.block(b).kind != BlockKind::embedding) bring(step, b);
  }

 private:
  void bring(Step& step, int b) {
    if (homes_[b] == Tier::device) return;
    const TensorRange wanted = step.at_hand(b);
    const Bytes bytes = step.block(b).weights.bytes(wanted.count);
    const ObjectId here = step.object(Tier::device, Purpose::weights, bytes,
                                      step.name_of(b) + " weights", {End::high, stream_});
    step.weights[b] = here;
    if (bytes == 0) return;
    for (const auto& [from, to] : copies_of_weights(step.program, step.work, b, wanted, here)) {
      Fetch& fetch = step.fetch(from, to);
      fetch.task.block = b;
      fetch.task.micro = step.micro;
    }
  }

  List<Tier> homes_;  // by block
  int stream_ = -1;
};

}  // namespace

std::unique_ptr<Rule> weights_rule() { return std::make_unique<Weights>(); }

}  // namespace ebb::plan
