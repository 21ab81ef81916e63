// What a plan of generation decides: which weights leave the device and where they live then, who
// computes with them in a prompt and for a token, where the key-value cache is, how long slices of
// a prompt are. A row of a table each, as training's choices (choice_table.h); flags reproduce
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/list.h"
#include "plan/choices.h"
#include "plan/workload.h"

namespace ebb::plan {

// A cache follows its attention: where all of it is computed on the device, `mixed` is the device.
enum class CacheHome : std::uint8_t {
  mixed,   // on the tier of the processor that attends for tokens
  device,  // all of it: the CPU attends for no token
  host,    // all of it: its rows come up where the device attends
};

struct GenerationChoices {
  // So many blocks' weights are not on the device. The first is an embedding that the head does not
  // share: the CPU looks rows up as well, and nothing of the table moves. Then layers, evenly
  // spread, so that others compute while a prompt's weights come; then the head, with its table.
  std::int64_t streamed_weights = 0;
  std::int64_t disk_weights = 0;  // of those layers, so many live below host memory, evenly spread
  // 1: the attention's weights of those layers stay on the device, and the MLP's alone leave.
  std::int64_t attention_resident = 0;
  // Of those layers, so many are computed by the CPU, evenly spread: for a token, and in a prompt.
  // Of the others the weights come up.
  std::int64_t cpu_blocks = 0;
  std::int64_t cpu_prompt_blocks = 0;
  CacheHome cache = CacheHome::mixed;
  std::int64_t slice = 64;  // tokens of a prompt that go through the model at once, at most
  std::int64_t depth = Choices::kLeastDepth;  // weights on their way at once
  Tier below = Tier::host;                    // the tier below host memory; host: there is none
  friend bool operator==(const GenerationChoices&, const GenerationChoices&) = default;
};

// What the user fixed; an empty field is the plan's to choose.
struct FixedGenerationChoices {
  std::optional<std::int64_t> streamed_weights{};
  std::optional<std::int64_t> disk_weights{};
  std::optional<std::int64_t> attention_resident{};
  std::optional<std::int64_t> cpu_blocks{};
  std::optional<std::int64_t> cpu_prompt_blocks{};
  std::optional<CacheHome> cache{};
  std::optional<std::int64_t> slice{};
  std::optional<std::int64_t> depth{};
  Tier below = Tier::host;
};

struct GenerationChoice {
  std::string_view flag;
  std::string_view zero{}, one{}, two{};  // how 0, 1 and 2 are written; empty: as a number
  std::int64_t (*get)(const GenerationChoices&) = nullptr;
  // Leaves it to the plan; whether it was fixed.
  bool (*release)(FixedGenerationChoices&) = nullptr;
  bool always = false;    // printed also where it is 0
  bool automatic = true;  // "auto" is a word for it
};
std::span<const GenerationChoice> generation_choice_table();

// "--weights 14 --cpu-blocks 14 ...": the flags that reproduce the choices.
std::string flags_of(const GenerationChoices&);

enum class Processor : std::uint8_t { device, cpu };

// Where a block's weights and cache live, and the processor that computes with it.
struct BlockPlace {
  Tier home = Tier::device;
  Tier cache = Tier::device;
  Processor prompt = Processor::device;
  Processor token = Processor::device;
};

// By block. A slice of one token is computed as a token is.
List<BlockPlace> place_blocks(const Workload&, const GenerationChoices&);

// The most blocks whose weights can leave the device, and the layers among so many.
std::int64_t most_streamed(const Workload&);
std::int64_t streamed_layers(const Workload&, std::int64_t streamed);

}  // namespace ebb::plan
