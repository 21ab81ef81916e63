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
      objects.states.push_back(step.persistent(chunk.home, Purpose::states,
                                               step.work.state_bytes(chunk.count), name(c)));
      objects.weight_copies.push_back(chunk.place == Place::cpu
                                          ? step.persistent(Tier::host, Purpose::weights,
                                                            chunk.count * step.work.weight_bytes,
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
    const Workload& work = step.work;
    const bool by_cpu = chunk.place == Place::cpu;
    const Bytes state_bytes = work.state_bytes(chunk.count);
    const Bytes weight_bytes = chunk.count * work.weight_bytes;
    const Part home{step.program.persistent.states[Step::at(c)], {0, state_bytes}};
    const Tier here = memory_of(chunk.place);
    Part state = home;
    if (chunk.home != here) {
      state.object = step.object(here, Purpose::states, state_bytes, name(c), {.end = End::high});
      Fetch& fetch = step.fetch(home, state);
      fetch.earliest = step.tide.early ? 0 : step.last_pass_start;
      fetch.task.block = chunk.block;
      fetch.task.chunk = c;
    }
    const Part weight{step.weights[Step::at(chunk.block)],
                      {chunk.first * work.weight_bytes, weight_bytes}};
    const Part copy{step.program.persistent.weight_copies[Step::at(c)], {0, weight_bytes}};
    const std::vector<Use> uses = {writes(Role::weights, by_cpu ? copy : weight),
                                   reads(Role::gradient, step.finished[Step::at(c)]),
                                   writes(Role::state, state),
                                   reads(Role::scale, step.scale[here])};
    const Bytes traffic = 2 * (state_bytes + weight_bytes) + chunk.count * work.gradient_bytes;
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
    if (by_cpu) take(copy, weight);
  }
};

}  // namespace

std::unique_ptr<Rule> states_rule() { return std::make_unique<States>(); }

}  // namespace ebb::plan
