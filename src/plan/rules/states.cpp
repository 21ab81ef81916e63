// Each chunk is updated in its place. Where its state lives elsewhere, it is fetched before and
// taken home after; where the CPU updates, the new weight goes up.
#include <fmt/format.h>

#include "plan/rules/step.h"

namespace ebb::plan {
namespace {

Tier memory_of(Place place) { return place == Place::cpu ? Tier::host : Tier::device; }

class States final : public Rule {
 public:
  void start(Step& step) override {
    PersistentObjects& objects = step.program.persistent;
    for (int c = 0; c < step.chunks(); ++c) {
      const Chunk& chunk = step.chunk(c);
      objects.states.push_back(
          step.persistent(chunk.home, Purpose::states, state_bytes(step.work, chunk), name(c)));
      objects.weight_copies.push_back(
          chunk.place == Place::cpu
              ? step.persistent(Tier::host, Purpose::weights,
                                step.block(chunk.block).weights.bytes(chunk.count),
                                fmt::format("chunk {} weights", c))
              : -1);
    }
  }

  // Streamed ones first: their way out is long, and the next forward pass needs their memory.
  void finish(Step& step) override {
    for (const Site site : {Site::stream, Site::resident, Site::host}) {
      for (int c = 0; c < step.chunks(); ++c) {
        if (step.chunk(c).site() == site) update(step, c);
      }
    }
  }

 private:
  static std::string name(int c) { return fmt::format("chunk {} state", c); }

  static void update(Step& step, int c) {
    const Chunk& chunk = step.chunk(c);
    const Block& block = step.block(chunk.block);
    const bool by_cpu = chunk.place == Place::cpu;
    const Bytes of_state = state_bytes(step.work, chunk);
    const Part home{step.program.persistent.states[Step::at(c)], {0, of_state}};
    const Tier here = memory_of(chunk.place);
    Part state = home;
    if (chunk.home != here) {
      state.object = step.object(here, Purpose::states, of_state, name(c), {.end = End::high});
      Fetch& fetch = step.fetch(home, state);
      fetch.earliest = step.tide.early ? 0 : step.last_pass_start;
      fetch.task.block = chunk.block;
      fetch.task.chunk = c;
    }
    // A part of each plane, where the passes read them and where the CPU keeps its own.
    const auto weights = parts(step.weights[Step::at(chunk.block)],
                               block.weights.ranges(block.parameters, chunk.first, chunk.count));
    const auto copies = parts(step.program.persistent.weight_copies[Step::at(c)],
                              block.weights.ranges(chunk.count, 0, chunk.count));
    std::vector<Use> uses;
    Bytes traffic = 2 * of_state + chunk.count * step.work.gradient_bytes;
    for (const Part& part : by_cpu ? copies : weights) {
      uses.push_back(writes(Role::weights, part));
      traffic += 2 * part.range.bytes;
    }
    uses.push_back(reads(Role::gradient, step.finished[Step::at(c)]));
    uses.push_back(writes(Role::state, state));
    uses.push_back(reads(Role::scale, step.scale[here]));
    Task& task = by_cpu ? step.on_cpu(Op::update, Draw::update, uses)
                        : step.compute(Op::update, chunk.block, uses);
    task.block = chunk.block;
    task.micro = -1;
    task.chunk = c;
    if (by_cpu) {
      task.moved = traffic;
    } else {
      task.cost.bytes = static_cast<double>(traffic);
    }
    const auto take = [&](const Part& from, const Part& to) {
      Task& send = step.transfer(from, to);
      send.block = chunk.block;
      send.chunk = c;
    };
    if (chunk.home != here) take(state, home);
    for (std::size_t p = 0; by_cpu && p < weights.size(); ++p) take(copies[p], weights[p]);
  }

  static std::vector<Part> parts(ObjectId object, const std::vector<Range>& ranges) {
    std::vector<Part> all;
    for (const Range& range : ranges) all.push_back({object, range});
    return all;
  }
};

}  // namespace

std::unique_ptr<Rule> states_rule() { return std::make_unique<States>(); }

}  // namespace ebb::plan
