#include "text/data/prefetch.h"

#include <algorithm>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::text {

void check_length(const DataSet& data, BatchShape shape, Packing packing) {
  const std::int64_t tokens = data.most_tokens();
  if (packing != Packing::stream || tokens > shape.sequence) return;
  // Said without adding one to the sequence, which may be as large as an integer can be.
  throw ConfigError(fmt::format(
      "the data has at most {} tokens, too few for a sequence of {} tokens and the token after it; "
      "{}",
      tokens, shape.sequence,
      tokens < 2 ? std::string("give more data")
                 : fmt::format("give more data or a sequence of at most {}", tokens - 1)));
}

AheadBounds bounds_for(BatchShape shape, std::int64_t batches_ahead, int workers) {
  return {.items = std::max<std::int64_t>(256, batches_ahead * shape.rows),
          .tokens = batches_ahead * shape.tokens(),
          .workers = workers};
}

Prefetcher::Prefetcher(const DataSet& data, const BatchRules& rules, DataPosition start,
                       AheadBounds bounds)
    : shape_(rules.shape),
      position_(start),
      ahead_(data, shuffled_order(data, rules.seed, rules.held_out_share, start), bounds),
      maker_(rules.shape, rules.packing, data.encoding().tokenizer->end_of_text(), start,
             [this] { return ahead_.next(); }) {}

std::vector<Batch> Prefetcher::next_step(std::int64_t batches) {
  const DataPosition start = position_;
  LeftOut before;
  for (;;) {
    std::vector<Batch> step;
    std::int64_t loss_tokens = 0;
    for (std::int64_t i = 0; i < batches; ++i) {
      step.push_back(next());
      loss_tokens += step.back().loss_tokens;
    }
    position_ = step.back().position_after;
    if (loss_tokens > 0) {
      before.add(step.front().left_out);
      step.front().left_out = std::move(before);
      return step;
    }
    for (const Batch& batch : step) before.add(batch.left_out);
    ++before.empty_steps;
    const std::int64_t epochs = position_.epoch - start.epoch;
    if (epochs > 1 || (epochs == 1 && position_.item >= start.item)) {
      throw ConfigError(fmt::format(
          "none of the tokens of a whole epoch counts for the loss; are the prompts longer than "
          "--sequence {}?",
          shape_.sequence));
    }
  }
}

}  // namespace ebb::text
