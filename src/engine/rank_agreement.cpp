#include "engine/rank_agreement.h"

#include <array>
#include <span>

#include <fmt/format.h>

#include "base/digest.h"
#include "ebb/error.h"

namespace ebb::engine {

void check_same(dist::Communicator& ranks, const std::string& what, const std::string& text) {
  const List<std::string> texts = ranks.gather_to_all(text);
  for (int other = 0; other < ranks.size(); ++other) {
    if (texts[other] == texts.front()) continue;
    throw ConfigError(
        fmt::format("{} and {} differ in {}: {} and {}. All ranks of a run are started with the "
                    "same options, from the same version of Ebb",
                    ranks.name_of(0), ranks.name_of(other), what, texts.front(), texts[other]));
  }
}

plan::Plan plan_together(dist::Communicator& ranks, const plan::FixedChoices& fixed,
                         const std::function<plan::Plan(const plan::FixedChoices&)>& make) {
  const auto make_or_tell = [&](const plan::FixedChoices& choices) {
    try {
      return make(choices);
    } catch (const std::exception& error) {
      ranks.fail(error.what());
      throw;
    }
  };
  std::array<std::int64_t, 2> cuts{};
  if (ranks.rank() == 0) {
    plan::Plan plan = make_or_tell(fixed);
    cuts = {plan.choices.chunk_parameters, plan.choices.vocabulary_cut};
    ranks.broadcast(0, cuts.data(), sizeof cuts);
    ranks.barrier();
    return plan;
  }
  ranks.broadcast(0, cuts.data(), sizeof cuts);
  plan::FixedChoices own = fixed;
  own.chunk_parameters = cuts[0];
  own.vocabulary_cut = cuts[1];
  plan::Plan plan = make_or_tell(own);
  ranks.barrier();  // none begins before all have a plan
  return plan;
}

void check_same_cuts(dist::Communicator& ranks, const plan::Plan& plan) {
  Digest digest;
  const plan::Ranks& divided = plan.workload.ranks;
  add_sized(digest, fmt::format("{} {} {} {}", divided.micro_batches, divided.groups,
                                plan.workload.gradient_bytes, plan.choices.vocabulary_cut));
  for (const plan::Chunk& chunk : plan.program.chunks) {
    add_sized(digest, fmt::format("{} {} {}", chunk.block, chunk.first, chunk.count));
  }
  check_same(ranks, "how a step is cut (micro-batches, groups, chunks)", digest.hex());
}

}  // namespace ebb::engine
