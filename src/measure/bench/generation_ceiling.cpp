#include "measure/bench/generation_ceiling.h"

#include <algorithm>

#include "model/parameters.h"

namespace ebb::measure {
namespace {

// Keys that the query at a position sees.
double keys_at(std::int64_t position, std::int64_t window) {
  const std::int64_t before = position + 1;
  return static_cast<double>(window > 0 ? std::min(window, before) : before);
}

// Summed over positions from `first` on.
double keys_of(std::int64_t first, std::int64_t count, std::int64_t window) {
  double keys = 0;
  for (std::int64_t i = first; i < first + count; ++i) keys += keys_at(i, window);
  return keys;
}

double prompt_flops(const model::Config& config, const GenerationTest& test) {
  if (test.prompt == 0) return 0;
  const model::Parameters parameters = model::parameters_of(config);
  double products = 0, attention = 0;  // multiply-adds
  for (const model::ParameterBlock& block : parameters.blocks) {
    if (block.kind != model::ParameterBlock::Kind::layer) continue;
    for (const int p : block.parameters) {
      const model::Parameter& parameter = parameters.all[p];
      if (parameter.matrix) products += static_cast<double>(parameter.count());
    }
    // Scores, and the values that they weigh.
    attention += 2 * static_cast<double>(config.query_width()) *
                 keys_of(test.depth, test.prompt, config.window(block.layer));
  }
  const auto head = static_cast<double>(config.vocabulary * config.hidden);
  return 2 * static_cast<double>(test.batch) *
         (products * static_cast<double>(test.prompt) + attention + head);
}

}  // namespace

GenerationCost generation_cost(const model::Config& config, const plan::GenerationPlan& plan,
                               std::int64_t positions, const GenerationTest& test) {
  GenerationCost cost{.flops = prompt_flops(config, test)};
  const plan::Program& program = plan.token.program;
  const plan::Workload& work = plan.token.workload;
  const auto tokens = static_cast<double>(test.tokens);
  const int embedding = work.all_of(plan::BlockKind::embedding)[0];
  const plan::ObjectId table = program.persistent.weights[embedding];
  for (plan::ObjectId id = 0; id < std::ssize(program.objects); ++id) {
    const plan::Object& object = program[id];
    if (!object.persistent || object.purpose != plan::Purpose::weights) continue;
    cost.weight_bytes[object.tier] += object.bytes;
    auto read = static_cast<double>(object.bytes);
    if (id == table) {
      // The head reads the tokens' table, not what learned positions lie behind it.
      const plan::Block& block = work.blocks[embedding];
      read = config.tied
                 ? static_cast<double>(block.weights.bytes(config.vocabulary * config.hidden))
                 : 0;
    }
    cost.read_bytes[object.tier] += tokens * read;
  }
  std::int64_t layer = 0;
  for (const int b : work.all_of(plan::BlockKind::layer)) {
    if (work.blocks[b].half == plan::LayerHalf::mlp) continue;
    // Of a position in all sequences.
    const double each = static_cast<double>(work.blocks[b].cache) / static_cast<double>(positions);
    cost.read_bytes[program[program.persistent.caches[b]].tier] +=
        each * keys_of(test.depth + test.prompt, test.tokens, config.window(layer++));
  }
  return cost;
}

std::optional<double> ceiling_seconds(const GenerationCost& cost, const GenerationRates& rates) {
  double seconds = cost.flops > 0 ? cost.flops / rates.matrix_flops : 0;
  for (std::size_t i = 0; i < plan::kMostTiers; ++i) {
    const plan::Tier tier{static_cast<std::uint8_t>(i)};
    const double bytes = cost.read_bytes[tier];
    if (bytes == 0) continue;
    const bool known = tier == plan::Tier::device || tier == plan::Tier::host;
    if (!known) return std::nullopt;
    const ReadRate& rate = tier == plan::Tier::device ? rates.device : rates.host;
    seconds += bytes / rate.bytes_per_second;
  }
  return seconds;
}

}  // namespace ebb::measure
