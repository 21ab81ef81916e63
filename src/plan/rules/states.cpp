// Each chunk is updated in its place. Where its state, its weights or its gradient are elsewhere,
// they are fetched before; state and weights are taken home after.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "plan/rules/step.h"
#include "plan/weight_parts.h"

namespace ebb::plan {
namespace {

Tier memory_of(Place place) { return place == Place::cpu ? Tier::host : Tier::device; }

class States final : public Rule {
 public:
  void start(Step& step) override {
    PersistentObjects& objects = step.program.persistent;
    for (int c = 0; c < step.chunks(); ++c) {
      const Chunk& chunk = step.chunk(c);
      if (!step.owns(c)) {
        objects.states.push_back(-1);
        objects.weight_copies.push_back(-1);
        continue;
      }
      objects.states.push_back(
          step.persistent(chunk.home, Purpose::states, state_bytes(step.work, chunk), name(c)));
      // The CPU updates weights of the device in a copy of its own, which then goes up.
      const bool copy =
          chunk.place == Place::cpu &&
          step.tier_of(weight_home(step.program, step.work, c).front()) == Tier::device;
      objects.weight_copies.push_back(
          copy ? step.persistent(Tier::host, Purpose::weights,
                                 step.block(chunk.block).weights.bytes(chunk.count),
                                 fmt::format("chunk {} weights", c))
               : -1);
    }
  }

  // What an update alone asks for comes right before it; states may lie there long before. Streamed
  // ones first: their way out is long, and the next forward pass needs their memory. Those of a
  // slow tier wait long to be written, in memory of gradients that are done with. So resident ones
  // make room for them; and the last blocks go first, whose memory the next gradients want first.
  void finish(Step& step) override {
    gradients_ = {.end = End::low, .stream = step.stream("gradients for updates")};
    weights_ = {.end = End::low, .stream = step.stream("weights for updates")};
    List<int> slow, fast, resident, by_cpu;
    for (int c = 0; c < step.chunks(); ++c) {
      const Chunk& chunk = step.chunk(c);
      if (!step.owns(c)) continue;
      switch (chunk.site()) {
        case Site::stream: {
          const bool addressable = (*step.program.topology)[chunk.home].addressable;
          (addressable ? fast : slow).push_back(c);
          break;
        }
        case Site::resident: resident.push_back(c); break;
        case Site::host: by_cpu.push_back(c); break;
      }
    }
    std::reverse(slow.begin(), slow.end());
    if (slow.empty()) std::swap(fast, resident);
    for (const List<int>* chunks : {&resident, &slow, &fast, &by_cpu}) {
      if (chunks == &fast && !slow.empty()) not_before_ = step.next_task();
      for (const int c : *chunks) update(step, c);
    }
  }

 private:
  static std::string name(int c) { return fmt::format("chunk {} state", c); }

  void update(Step& step, int c) const {
    const Chunk& chunk = step.chunk(c);
    const Block& block = step.block(chunk.block);
    const bool by_cpu = chunk.place == Place::cpu;
    const Tier here = memory_of(chunk.place);
    const Bytes of_state = state_bytes(step.work, chunk);
    const Part home{step.program.persistent.states[c], {0, of_state}};
    const Part state =
        brought(step, c, home, {.end = End::high}, step.tide.early ? 0 : step.last_pass_start);
    const Part gradient =
        brought(step, c, step.finished[c], gradients_, std::max(not_before_, step.finished_by[c]));
    // A part of each plane: where the weights live, and where they are updated.
    const auto homes = weight_home(step.program, step.work, c);
    const TierInfo& tier = (*step.program.topology)[step.tier_of(homes.front())];
    const auto own = tier.addressable ? block.weights.ranges(chunk.count, 0, chunk.count)
                                      : planes_apart(block.weights, chunk.count, tier.alignment);
    List<Part> weights = homes;
    const ObjectId copy = step.program.persistent.weight_copies[c];
    if (copy >= 0) {
      weights = parts(copy, own);
    } else if (step.tier_of(homes.front()) != here) {
      const ObjectId object =
          step.object(here, Purpose::weights, own.back().first + own.back().bytes,
                      fmt::format("chunk {} weights", c), weights_);
      weights = parts(object, own);
      for (std::size_t p = 0; p < homes.size(); ++p) fetch(step, c, homes[p], weights[p], 0);
    }
    List<Use> uses;
    Bytes traffic = 2 * of_state + chunk.count * step.work.gradient_bytes;
    for (const Part& part : weights) {
      uses.push_back(writes(Role::weights, part));
      traffic += 2 * part.range.bytes;
    }
    uses.push_back(reads(Role::gradient, gradient));
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
    take_home(step, c, state, home);
    for (std::size_t p = 0; p < homes.size(); ++p) take_home(step, c, weights[p], homes[p]);
  }

  static void fetch(Step& step, int c, const Part& from, const Part& to, TaskId earliest) {
    Fetch& fetch = step.fetch(from, to);
    fetch.earliest = earliest;
    fetch.task.block = step.chunk(c).block;
    fetch.task.chunk = c;
  }

  // A part where the chunk is updated: itself, or an object that it is fetched into.
  static Part brought(Step& step, int c, const Part& from, Step::Placing placing, TaskId earliest) {
    const Tier here = memory_of(step.chunk(c).place);
    if (step.tier_of(from) == here) return from;
    const Object& there = step.program[from.object];
    const Part to{step.object(here, there.purpose, from.range.bytes, there.name, placing),
                  {0, from.range.bytes}};
    fetch(step, c, from, to, earliest);
    return to;
  }

  static void take_home(Step& step, int c, const Part& from, const Part& home) {
    if (from.object == home.object) return;
    Task& send = step.transfer(from, home);
    send.block = step.chunk(c).block;
    send.chunk = c;
  }

  static List<Part> parts(ObjectId object, const List<Range>& ranges) {
    List<Part> all;
    for (const Range& range : ranges) all.push_back({object, range});
    return all;
  }

  Step::Placing gradients_, weights_;  // for updates
  TaskId not_before_ = 0;              // what is fetched for the next of them
};

}  // namespace

std::unique_ptr<Rule> states_rule() { return std::make_unique<States>(); }

}  // namespace ebb::plan
