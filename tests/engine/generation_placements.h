// Placements of generation's weights and caches, so that each of them is somewhere and each
// processor computes something.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/generation_choices.h"

namespace ebb::engine {

inline constexpr std::int64_t kAllBlocks = 1000;  // more than there are

struct TestPlacement {
  const char* name;
  plan::FixedGenerationChoices fixed;
  bool disk = false;
};

inline std::vector<TestPlacement> test_placements() {
  return {
      {"resident", {.streamed_weights = 0}},
      {"streamed for both",
       {.streamed_weights = kAllBlocks,
        .attention_resident = 0,
        .cpu_blocks = 0,
        .cpu_prompt_blocks = 0,
        .depth = 2}},
      {"streamed for prompts, tokens by the CPU",
       {.streamed_weights = kAllBlocks,
        .attention_resident = 0,
        .cpu_blocks = kAllBlocks,
        .cpu_prompt_blocks = 0}},
      {"all by the CPU",
       {.streamed_weights = kAllBlocks,
        .attention_resident = 0,
        .cpu_blocks = kAllBlocks,
        .cpu_prompt_blocks = kAllBlocks}},
      {"attention on the device, MLPs by the CPU",
       {.streamed_weights = kAllBlocks,
        .attention_resident = 1,
        .cpu_blocks = kAllBlocks,
        .cpu_prompt_blocks = 0}},
      {"some blocks, one of them by the CPU",
       {.streamed_weights = 2, .attention_resident = 0, .cpu_blocks = 1, .cpu_prompt_blocks = 1}},
      {"resident with the cache in host memory",
       {.streamed_weights = 0, .cache = plan::CacheHome::host}},
      {"streamed with the cache in host memory",
       {.streamed_weights = kAllBlocks,
        .attention_resident = 0,
        .cpu_blocks = 1,
        .cpu_prompt_blocks = kAllBlocks,
        .cache = plan::CacheHome::host,
        .depth = 3}},
      {"the cache on the device, MLPs by the CPU",
       {.streamed_weights = kAllBlocks,
        .attention_resident = 0,
        .cpu_blocks = kAllBlocks,
        .cpu_prompt_blocks = kAllBlocks,
        .cache = plan::CacheHome::device}},
      {"streamed from the disk",
       {.streamed_weights = kAllBlocks,
        .disk_weights = kAllBlocks,
        .attention_resident = 0,
        .cpu_blocks = 0,
        .cpu_prompt_blocks = 0},
       true},
      {"from the disk to the CPU",
       {.streamed_weights = kAllBlocks,
        .disk_weights = kAllBlocks,
        .attention_resident = 0,
        .cpu_blocks = kAllBlocks,
        .cpu_prompt_blocks = 0},
       true},
      {"some of all",
       {.streamed_weights = kAllBlocks,
        .disk_weights = 1,
        .attention_resident = 1,
        .cpu_blocks = 1,
        .cpu_prompt_blocks = 0,
        .cache = plan::CacheHome::host},
       true},
  };
}

}  // namespace ebb::engine
