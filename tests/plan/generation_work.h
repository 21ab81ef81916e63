// Work of generation for tests of its plans: layers whose halves are blocks, all alike.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "plan/generation_plan.h"

namespace ebb::plan {

// A pass over some tokens of a model with so many layers, behind `context` others. A layer has two
// blocks, its halves.
inline Workload generation_pass(std::size_t layers, std::int64_t tokens, std::int64_t context,
                                std::int64_t positions) {
  Workload work{.tokens = tokens,
                .batch = 4 * tokens,
                .input = 1024 * tokens,
                .scratch = 4000,
                .host_scratch = 3000,
                .host_libraries = 70'000,
                .tables = 64 * positions,
                .logits = 40'000,
                .task_bytes = 100};
  const auto count = static_cast<double>(tokens);
  const auto add = [&](BlockKind kind, LayerHalf half, std::string name, double part) {
    Block block{.kind = kind,
                .half = half,
                .name = std::move(name),
                .parameters = static_cast<std::int64_t>(3'000'000 * part)};
    block.forward = {.narrow_flops = part * 6e6 * count,
                     .pass_bytes = part * 8192 * count,
                     .calls = part * 12,
                     .read_bytes = part * 6e6};
    block.forward_work = 5000 * tokens;
    if (half == LayerHalf::attention) {
      block.forward.attention_flops = 2048 * count * static_cast<double>(context + tokens);
      block.forward.read_bytes += 512.0 * static_cast<double>(context + tokens);
      block.cache = 512 * positions;
      block.cached = 512 * context;
      block.cache_added = 512 * tokens;
    }
    work.blocks.push_back(std::move(block));
  };
  add(BlockKind::embedding, LayerHalf::both, "embedding", 1);
  for (std::size_t l = 0; l < layers; ++l) {
    add(BlockKind::layer, LayerHalf::attention, fmt::format("block {} attention", l), 0.25);
    add(BlockKind::layer, LayerHalf::mlp, fmt::format("block {} mlp", l), 0.75);
  }
  add(BlockKind::head, LayerHalf::both, "head", 1);
  work.extras = {{Tier::device, "libraries", 1000}, {Tier::host, "tokenizer", 50'000}};
  return work;
}

inline GenerationWork generation_work_of(std::size_t layers, std::int64_t prompt,
                                         std::int64_t answer, std::int64_t slice = 64) {
  slice = std::min(slice, prompt);
  const std::int64_t positions = prompt + answer, context = (prompt + positions) / 2;
  GenerationWork work{.prompt_tokens = prompt,
                      .max_tokens = answer,
                      .slice = generation_pass(layers, slice, prompt / 2, positions),
                      .slices = prompt / slice,
                      .token = generation_pass(layers, 1, context, positions),
                      .context = context};
  if (prompt % slice != 0) {
    work.rest = generation_pass(layers, prompt % slice, prompt / slice * slice, positions);
  }
  return work;
}

// The same for so many sequences at once: a token's run is of all of them.
inline GenerationWork for_sequences(GenerationWork work, std::int64_t sequences) {
  work.sequences = sequences;
  for (Workload* each : {&work.slice, &work.token, work.rest ? &*work.rest : nullptr}) {
    if (each == nullptr) continue;
    const std::int64_t rows = each == &work.token ? sequences : 1;
    each->sequences = sequences;
    each->tokens *= rows;
    each->input *= rows;
    each->batch = 4 * std::max(each->tokens, sequences);
    for (Block& block : each->blocks) {
      const auto count = static_cast<double>(rows);
      block.cache *= sequences;
      block.forward_work *= rows;
      block.forward.narrow_flops *= count;
      block.forward.pass_bytes *= count;
      block.forward.attention_flops *= count;
    }
  }
  return work;
}

}  // namespace ebb::plan
