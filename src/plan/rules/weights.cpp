// A block's weights live on the device, or in host memory: then they come up before its forward,
// and again before its backward, behind the blocks that compute.
#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

class Weights final : public Rule {
 public:
  void start(Step& step) override {
    streamed_ = streamed_blocks(step.work, step.choices);
    if (step.choices.streamed_weights > 0) stream_ = step.stream("weights");
    for (int b = 0; b < step.blocks(); ++b) {
      step.homes[Step::at(b)] =
          step.persistent(streamed_[Step::at(b)] ? Tier::host : Tier::device, Purpose::weights,
                          bytes_of(step, b), step.block(b).name + " weights");
    }
    step.weights = step.program.persistent.weights = step.homes;
  }

  void before_forward(Step& step, int b) override { bring(step, b); }

  void before_backward(Step& step, int b) override {
    const BlockKind kind = step.block(b).kind;
    // The embedding's gradient asks for no weights. A tied head asks for the embedding's.
    if (kind != BlockKind::embedding) bring(step, b);
    if (kind != BlockKind::head || step.work.tied_sum == 0) return;
    for (const int embedding : step.work.all_of(BlockKind::embedding)) bring(step, embedding);
  }

 private:
  static Bytes bytes_of(const Step& step, int b) {
    return step.block(b).weights.bytes(step.block(b).parameters);
  }

  void bring(Step& step, int b) {
    if (!streamed_[Step::at(b)]) return;
    const Range all{0, bytes_of(step, b)};
    const ObjectId here = step.object(Tier::device, Purpose::weights, all.bytes,
                                      step.block(b).name + " weights", {End::high, stream_});
    step.weights[Step::at(b)] = here;
    if (all.bytes == 0) return;
    Fetch& fetch = step.fetch({step.homes[Step::at(b)], all}, {here});
    fetch.task.block = b;
    fetch.task.micro = step.micro;
  }

  std::vector<bool> streamed_;  // by block
  int stream_ = -1;
};

}  // namespace

std::unique_ptr<Rule> weights_rule() { return std::make_unique<Weights>(); }

}  // namespace ebb::plan
