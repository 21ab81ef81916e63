// Weights are whole on every rank: once a block's chunks are updated, each owner sends those of its
// chunks to all others. Where weights live in host memory they are sent from there and received
// there; elsewhere they pass through it.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "plan/rules/step.h"
#include "plan/weight_parts.h"

namespace ebb::plan {
namespace {

class GatheredWeights final : public Rule {
 public:
  bool applies(const Workload& work) const override { return work.ranks.count > 1; }

  // In the order in which the next forward pass asks for them.
  void finish(Step& step) override {
    stream_ = step.stream("weights of all ranks");
    for (int b = 0; b < step.blocks(); ++b) {
      if (!step.chunks_of[b].empty()) gather(step, b);
    }
  }

 private:
  struct Homeward {
    int chunk = 0;
    Part from, to;
  };

  void gather(Step& step, int b) {
    List<Use> uses;
    List<Homeward> to_their_homes;
    Bytes own = 0, all = 0;
    const auto of_chunk = [&](Task& task, int c) {
      task.block = b;
      task.chunk = c;
    };
    for (const int c : step.chunks_of[b]) {
      const List<Part> homes = weight_home(step.program, step.work, c);
      const List<Part> here = in_host_memory(step, c, homes);
      for (std::size_t p = 0; p < here.size(); ++p) {
        const bool moves = here[p].object != homes[p].object;
        all += here[p].range.bytes;
        if (!step.owns(c)) {
          uses.push_back(writes(Role::weights, here[p]));
          if (moves) to_their_homes.push_back({c, here[p], homes[p]});
          continue;
        }
        own += here[p].range.bytes;
        const bool copied = here[p].object == step.program.persistent.weight_copies[c];
        if (moves && !copied) of_chunk(step.transfer(homes[p], here[p]), c);
        uses.push_back(reads(Role::weights, here[p]));
      }
    }
    // Where the norm stops the step it stops this one on every rank.
    uses.push_back(reads(Role::scale, step.scale[Tier::host]));
    Task& task = step.on_network(Op::gather_weights, b, std::move(uses));
    task.moved = std::max((step.work.ranks.count - 1) * own, all - own);
    for (const auto& [c, from, to] : to_their_homes) of_chunk(step.transfer(from, to), c);
  }

  // Where the network finds a chunk's weights: at home, in the CPU's copy, or on their way.
  List<Part> in_host_memory(Step& step, int c, const List<Part>& homes) const {
    const Tier home = step.tier_of(homes.front());
    if (home == Tier::host) return homes;
    const Chunk& chunk = step.chunk(c);
    const Planes& planes = step.block(chunk.block).weights;
    const TierInfo& tier = (*step.program.topology)[home];
    const ObjectId copy = step.program.persistent.weight_copies[c];
    const List<Range> ranges = copy >= 0 || tier.addressable
                                   ? planes.ranges(chunk.count, 0, chunk.count)
                                   : planes_apart(planes, chunk.count, tier.alignment);
    const ObjectId object =
        copy >= 0
            ? copy
            : step.object(Tier::host, Purpose::weights, ranges.back().first + ranges.back().bytes,
                          fmt::format("chunk {} weights", c), {.stream = stream_});
    List<Part> parts;
    for (const Range& range : ranges) parts.push_back({object, range});
    return parts;
  }

  int stream_ = -1;
};

}  // namespace

std::unique_ptr<Rule> gathered_weights_rule() { return std::make_unique<GatheredWeights>(); }

}  // namespace ebb::plan
