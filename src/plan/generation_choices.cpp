#include "plan/generation_choices.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace ebb::plan {
namespace {

using Fixed = FixedGenerationChoices;

template <auto kField>
bool release(Fixed& fixed) {
  return std::exchange(fixed.*kField, {}).has_value();
}

constexpr std::array<GenerationChoice, 8> kTable = {{
    {.flag = "--weights",
     .zero = "resident",
     .get = [](const GenerationChoices& c) { return c.streamed_weights; },
     .release = release<&Fixed::streamed_weights>,
     .always = true},
    {.flag = "--disk-weights",
     .get = [](const GenerationChoices& c) { return c.disk_weights; },
     .release = release<&Fixed::disk_weights>,
     .automatic = false},
    {.flag = "--attention",
     .zero = "stream",
     .one = "resident",
     .get = [](const GenerationChoices& c) { return c.attention_resident; },
     .release = release<&Fixed::attention_resident>},
    {.flag = "--cpu-blocks",
     .get = [](const GenerationChoices& c) { return c.cpu_blocks; },
     .release = release<&Fixed::cpu_blocks>},
    {.flag = "--cpu-prompt-blocks",
     .get = [](const GenerationChoices& c) { return c.cpu_prompt_blocks; },
     .release = release<&Fixed::cpu_prompt_blocks>},
    {.flag = "--cache",
     .zero = "mixed",
     .one = "device",
     .two = "host",
     .get = [](const GenerationChoices& c) { return static_cast<std::int64_t>(c.cache); },
     .release = release<&Fixed::cache>,
     .always = true},
    {.flag = "--slice",
     .get = [](const GenerationChoices& c) { return c.slice; },
     .release = release<&Fixed::slice>,
     .always = true,
     .automatic = false},
    {.flag = "--depth",
     .get = [](const GenerationChoices& c) { return c.depth; },
     .release = release<&Fixed::depth>,
     .automatic = false},
}};

bool is_layer(const Block& block, LayerHalf half) {
  return block.kind == BlockKind::layer && block.half == half;
}

std::int64_t layers_of(const Workload& work) {
  return std::ranges::count_if(
      work.blocks, [](const Block& block) { return is_layer(block, LayerHalf::attention); });
}

// One block alone: an embedding whose table is no one else's.
std::int64_t before_layers(const Workload& work) { return work.tied ? 0 : 1; }

// The places of a layer's two halves; `i` is its number among the layers that have left.
struct Left {
  const Workload& work;
  const GenerationChoices& choices;
  std::int64_t all = 0;

  void place(std::int64_t i, BlockPlace& attention, BlockPlace& mlp) const {
    const auto one_of = [&](std::int64_t many) { return is_one_of(i, std::min(many, all), all); };
    mlp.home = one_of(choices.disk_weights) ? choices.below : Tier::host;
    const bool token = one_of(choices.cpu_blocks), prompt = one_of(choices.cpu_prompt_blocks);
    mlp.token = token ? Processor::cpu : Processor::device;
    mlp.prompt = prompt ? Processor::cpu : Processor::device;
    if (choices.attention_resident != 0) return;
    attention.home = mlp.home;
    // The CPU does not attend to what is on the device.
    if (choices.cache == CacheHome::device) return;
    attention.token = mlp.token;
    if (token || choices.cache == CacheHome::host) attention.prompt = mlp.prompt;
  }
};

}  // namespace

std::span<const GenerationChoice> generation_choice_table() { return kTable; }

std::string flags_of(const GenerationChoices& choices) {
  std::string flags;
  for (const GenerationChoice& choice : kTable) {
    const std::int64_t value = choice.get(choices);
    // Where nothing leaves the device the rest has nothing to say.
    const bool matters = choice.always || choices.streamed_weights > 0;
    if (!matters || (value == 0 && !choice.always)) continue;
    const std::string_view word = value == 0   ? choice.zero
                                  : value == 1 ? choice.one
                                  : value == 2 ? choice.two
                                               : std::string_view{};
    flags += fmt::format("{}{} {}", flags.empty() ? "" : " ", choice.flag,
                         word.empty() ? std::to_string(value) : std::string(word));
  }
  return flags;
}

std::int64_t most_streamed(const Workload& work) {
  return before_layers(work) + layers_of(work) + 1;
}

std::int64_t streamed_layers(const Workload& work, std::int64_t streamed) {
  return std::clamp<std::int64_t>(streamed - before_layers(work), 0, layers_of(work));
}

List<BlockPlace> place_blocks(const Workload& work, const GenerationChoices& choices) {
  List<BlockPlace> places(work.blocks.size());
  const std::int64_t layers = layers_of(work);
  const Left left{work, choices, streamed_layers(work, choices.streamed_weights)};
  const bool ends = choices.streamed_weights >= most_streamed(work);
  std::int64_t layer = 0, gone = 0;
  for (int b = 0; b < work.blocks.count(); ++b) {
    const Block& block = work.blocks[b];
    if (is_layer(block, LayerHalf::attention)) {
      if (is_one_of(layer++, left.all, layers)) left.place(gone++, places[b], places[b + 1]);
      const bool on_host = choices.cache == CacheHome::host || places[b].token == Processor::cpu;
      places[b].cache = on_host ? Tier::host : Tier::device;
    } else if (block.kind != BlockKind::layer) {
      // The head makes logits of one token: its table is read once, by whom it lies at.
      const bool alone = block.kind == BlockKind::embedding && !work.tied;
      if (alone ? choices.streamed_weights > 0 : ends) {
        places[b] = {Tier::host, Tier::device, Processor::cpu, Processor::cpu};
      }
    }
  }
  if (choices.slice == 1) {
    for (BlockPlace& place : places) place.prompt = place.token;
  }
  return places;
}

}  // namespace ebb::plan
