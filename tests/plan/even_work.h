// Work whose blocks are all alike, so that shares of it are easy to see, and a machine for it.
#pragma once

#include <fmt/format.h>

#include "plan/profile.h"
#include "plan/workload.h"

namespace ebb::plan {

inline Profile machine() {
  return {.name = "a machine",
          .matmul_flops = 1e12,
          .device_bytes_per_second = 1e11,
          .up_bytes_per_second = 1e9,
          .down_bytes_per_second = 1e9,
          .host_bytes_per_second = 3e9,
          .sum_bytes_per_second = 3e9,
          .task_seconds = 1e-6};
}

// Six equal blocks: shares of them are easy to see.
inline Workload even_work(std::int64_t micro_batches = 1) {
  Workload work;
  for (int b = 0; b < 8; ++b) {
    work.blocks.push_back({.kind = b == 0   ? BlockKind::embedding
                                   : b == 7 ? BlockKind::head
                                            : BlockKind::layer,
                           .name = fmt::format("block {}", b),
                           .parameters = 65536,
                           .states = {{2}, {4}, {4}},
                           .tensors = {{0, 65536}},
                           .forward = {.flops = 4e8, .bytes = 1e6},
                           .recompute = {.flops = 3e8, .bytes = 8e5},
                           .backward = {.flops = 8e8, .bytes = 2e6},
                           .cheap_recompute = {.bytes = 4e5},
                           .mlp_again = {.flops = 1e8, .bytes = 2e5},
                           .saved = 150'000,
                           .saved_mlp = 150'000,
                           .cheap_saved = 60'000,
                           .forward_work = 50'000,
                           .recompute_work = 50'000,
                           .backward_work = 100'000,
                           .lean_forward_work = 200'000,
                           .lean_backward_work = 250'000});
  }
  work.micro_batches = micro_batches;
  work.tokens = 256;
  work.batch = 2048;
  work.input = 60'000;
  work.scratch = 10'000;
  work.tables = 1'000;
  work.norm_block = 4096;
  return work;
}

}  // namespace ebb::plan
