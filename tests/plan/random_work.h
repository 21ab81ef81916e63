// Random workloads and choices for property tests of programs. Everything follows from a seed.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/rng.h"
#include "plan/choice_table.h"
#include "plan/choices.h"
#include "plan/explain.h"
#include "plan/workload.h"
#include "scale.h"

namespace ebb::plan {

inline std::uint64_t fewer_if_small(std::uint64_t many) { return small_scale() ? many / 6 : many; }

// Draws one number after the other.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : rng_(seed, 0x64696365) {}
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(
                     rng_.below(next_++, static_cast<std::uint64_t>(high - low + 1)));
  }
  double share() { return rng_.uniform(next_++); }
  bool chance(double p) { return share() < p; }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return *(from.begin() + between(0, static_cast<std::int64_t>(from.size()) - 1));
  }

 private:
  CounterRng rng_;
  std::uint64_t next_ = 0;
};

inline Block random_block(Dice& dice, BlockKind kind, std::string name, std::int64_t largest) {
  Block block{.kind = kind, .name = std::move(name)};
  const std::int64_t tensors = dice.between(1, 5);
  for (std::int64_t t = 0; t < tensors; ++t) {
    const std::int64_t count = dice.chance(0.3) ? dice.between(1, 40) : dice.between(1, largest);
    block.tensors.push_back({block.parameters, count});
    block.parameters = (block.parameters + count + 15) / 16 * 16;
  }
  const auto cost = [&] { return Cost{.flops = dice.share() * 1e9, .bytes = dice.share() * 1e7}; };
  block.forward = cost();
  block.recompute = cost();
  block.backward = cost();
  const auto some = [&](Bytes most) { return dice.chance(0.15) ? 0 : dice.between(1, most); };
  block.saved = some(60'000);
  block.saved_mlp = some(40'000);
  block.forward_work = some(20'000);
  block.recompute_work = some(20'000);
  block.backward_work = some(40'000);
  block.kept_forward_work = std::min<Bytes>(block.forward_work, some(20'000));
  block.kept_backward_work = std::min<Bytes>(block.backward_work, some(40'000));
  block.lean_forward_work = std::min(block.kept_forward_work + block.saved_mlp, some(60'000));
  block.lean_backward_work = some(80'000);
  block.mlp_again = {.flops = block.forward.flops * dice.share() / 4};
  block.loss = cost();
  block.loss_work = std::min<Bytes>(block.backward_work, some(20'000));
  block.cheap_saved = some(30'000);
  block.cheap_recompute = {.flops = block.backward.flops * dice.share() / 4,
                           .bytes = block.backward.bytes * dice.share() / 4};
  return block;
}

// A device, a host, and a tier that is neither: no addresses, grains of its own, one lane each way
// to the host, and transfers that are shorter than most chunks.
inline constexpr Tier kShelf{2};
inline std::shared_ptr<const Topology> with_shelf(Bytes largest_transfer = 8192) {
  const auto topology = [&] {
    Topology made = *device_and_host();
    made.add(TierInfo{.name = "shelf",
                      .alignment = 4096,
                      .addressable = false,
                      .largest_transfer = largest_transfer});
    made.add(LaneInfo{.name = "take", .from = kShelf, .to = Tier::host, .bytes_per_second = 1e8});
    made.add(LaneInfo{.name = "put", .from = Tier::host, .to = kShelf, .bytes_per_second = 1e8});
    return std::make_shared<const Topology>(std::move(made));
  }();
  return topology;
}

// Pieces of the first tensor, which begin at multiples of the norm block and are all as long but
// the last; behind them what else the block has.
inline std::vector<BlockPiece> cut_table(const Block& block, std::int64_t grain,
                                         std::int64_t count) {
  const std::int64_t all = block.tensors.front().count;
  const std::int64_t end = block.tensors.size() > 1 ? block.tensors[1].first : block.parameters;
  const std::int64_t each = ((all + count - 1) / count + grain - 1) / grain * grain;
  std::vector<BlockPiece> pieces;
  for (std::int64_t first = 0; first < all; first += each) {
    pieces.push_back({.first = first, .count = first + each < all ? each : end - first});
  }
  if (end < block.parameters) pieces.push_back({.first = end, .count = block.parameters - end});
  return pieces;
}

// An embedding and a head that can run piece by piece, of as many pieces both.
inline void cut_vocabulary(Dice& dice, Workload& work) {
  Block &embedding = work.blocks.front(), &head = work.blocks.back();
  const bool tied = work.tied_sum > 0;
  if (!tied && head.tensors.size() == 1) return;  // its norm is a piece
  const std::size_t behind = embedding.tensors.size() > 1 ? 1 : 0;
  for (std::int64_t count = 4; count > 0; --count) {
    embedding.pieces = cut_table(embedding, work.norm_block, count);
    head.pieces = tied ? std::vector<BlockPiece>(embedding.pieces.size() - behind)
                       : cut_table(head, work.norm_block, count);
    if (tied) head.pieces.push_back({.first = 0, .count = head.parameters});
    if (head.pieces.size() - 1 == embedding.pieces.size() - behind) break;
  }
  for (Block* block : {&embedding, &head}) {
    for (BlockPiece& piece : block->pieces) {
      piece.forward = {.flops = dice.share() * 1e8, .bytes = dice.share() * 1e6};
      piece.backward = {.flops = dice.share() * 1e8, .bytes = dice.share() * 1e6};
      piece.forward_work = dice.chance(0.3) ? 0 : dice.between(1, 10'000);
      piece.backward_work = dice.chance(0.3) ? 0 : dice.between(1, 20'000);
    }
  }
  head.pieces_state = dice.between(1, 30'000);
  head.pieces_gradient = dice.between(1, 60'000);
  head.pieces_loss = {.bytes = 1e4};
}

inline Workload random_workload(std::uint64_t seed) {
  Dice dice(seed);
  Workload work;
  const std::int64_t layers = dice.between(1, 6);
  work.blocks.push_back(random_block(dice, BlockKind::embedding, "embedding", 3000));
  for (std::int64_t l = 0; l < layers; ++l) {
    work.blocks.push_back(random_block(dice, BlockKind::layer, fmt::format("block {}", l), 2500));
  }
  work.blocks.push_back(random_block(dice, BlockKind::head, "head", 3000));
  work.micro_batches = dice.pick<std::int64_t>({1, 2, 3, 5});
  work.tokens = dice.between(1, 500);
  work.batch = 8 * work.tokens;
  work.input = dice.between(1, 30'000);
  work.tied_sum = dice.chance(0.5) ? 4 * work.blocks[0].parameters : 0;
  work.scratch = dice.chance(0.3) ? 0 : dice.between(1, 10'000);
  work.tables = dice.between(1, 2'000);
  const bool wide = dice.chance(0.3);
  work.gradient_bytes = wide || dice.chance(0.3) ? 4 : 2;
  // Now and then weights of one byte with scales beside them, in some blocks.
  const bool narrow = dice.chance(0.2);
  for (Block& block : work.blocks) {
    block.weights = wide ? Planes{{4}} : Planes{{2}};
    if (narrow && dice.chance(0.7)) block.weights = {{1}, {4, 16}};
    block.states = wide ? Planes{{4}, {4}} : Planes{{2}, {4}, {4}};
  }
  work.norm_block = dice.pick<std::int64_t>({16, 64, 256, 4096});
  work.extras.push_back({Tier::host, "data", dice.between(0, 100'000)});
  Dice other(seed ^ 0x91ece5);
  if (other.chance(0.6)) cut_vocabulary(other, work);
  return work;
}

inline Choices random_choices(std::uint64_t seed, const Workload& work) {
  Dice dice(seed ^ 0xc401ce5);
  const std::int64_t layers = work.layers();
  Choices choices;
  choices.offload_fraction = dice.pick({0.0, 1.0, 1.0, dice.share(), dice.share()});
  choices.host_fraction =
      choices.offload_fraction * dice.pick({0.0, 0.0, 1.0, dice.share(), dice.share()});
  choices.chunk_parameters = dice.pick<std::int64_t>({1, 64, 500, 2000, 1 << 30});
  choices.recompute_blocks = dice.pick<std::int64_t>({0, layers, dice.between(0, layers)});
  choices.host_inputs = dice.pick<std::int64_t>({0, layers, dice.between(0, layers)});
  choices.cheap_saved_blocks = dice.pick<std::int64_t>({0, layers, dice.between(0, layers)});
  const auto blocks = static_cast<std::int64_t>(work.blocks.size());
  choices.streamed_weights = dice.pick<std::int64_t>({0, 0, blocks, dice.between(0, blocks)});
  choices.host_sums = dice.pick<std::int64_t>({0, 0, blocks, dice.between(0, blocks)});
  choices.depth = dice.pick<std::int64_t>({2, 2, 3, 8});
  choices.vocabulary_cut = dice.chance(0.6) ? 1 : 0;
  return choices;
}

// The same, with some of what leaves the device on the shelf.
inline Choices with_some_below(std::uint64_t seed, const Workload& work, Choices choices) {
  Dice dice(seed ^ 0xbe10);
  choices.below = kShelf;
  choices.disk_fraction =
      choices.offload_fraction * dice.pick({0.0, 1.0, 1.0, dice.share(), dice.share()});
  const auto some = [&](std::int64_t of) {
    return dice.pick<std::int64_t>({0, of, of, dice.between(0, of)});
  };
  choices.disk_weights = some(choices.streamed_weights);
  choices.disk_sums = some(static_cast<std::int64_t>(work.blocks.size()));
  choices.disk_inputs = some(choices.host_inputs);
  return choices;
}

inline std::string describe(std::uint64_t seed, const Workload& work, const Choices& choices) {
  return fmt::format("seed {}: {} blocks, {} micro-batches, tied sum {}, {} (host fraction {})",
                     seed, work.blocks.size(), work.micro_batches, work.tied_sum, flags_of(choices),
                     choices.host_fraction);
}

}  // namespace ebb::plan
