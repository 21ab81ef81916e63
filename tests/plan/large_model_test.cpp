// A model of 70 billion parameters on paper: planning must stay quick when models are large.
#include <gtest/gtest.h>

#include <chrono>

#include "plan/layout.h"
#include "plan/program_check.h"
#include "plan/simulator.h"
#include "plan/training_program.h"
#include "plan/waits.h"

namespace ebb::plan {
namespace {

// 80 blocks, 8192 wide, 4096 tokens in a micro-batch, bf16.
Workload large_work() {
  Workload work;
  constexpr std::int64_t tokens = 4096, hidden = 8192, middle = 28672, words = 128256;
  const auto block = [](BlockKind kind, std::string name, std::vector<std::int64_t> counts) {
    Block b{.kind = kind, .name = std::move(name), .states = {{2}, {4}, {4}}};
    for (const std::int64_t count : counts) {
      b.tensors.push_back({b.parameters, count});
      b.parameters += count;
    }
    const double parameters = static_cast<double>(b.parameters);
    b.forward = {.flops = 2 * parameters * tokens, .bytes = 4 * parameters};
    b.recompute = b.mlp_again = {.flops = parameters * tokens, .bytes = 2 * parameters};
    b.backward = {.flops = 4 * parameters * tokens, .bytes = 8 * parameters};
    b.saved = tokens * 10 * hidden;
    b.saved_mlp = tokens * 4 * middle;
    b.forward_work = b.recompute_work = tokens * 2 * middle;
    b.backward_work = tokens * (8 * hidden + 2 * middle);
    b.lean_forward_work = b.forward_work + b.saved_mlp;
    b.lean_backward_work = b.backward_work + b.saved_mlp;
    return b;
  };
  work.blocks.push_back(block(BlockKind::embedding, "embedding", {words * hidden}));
  for (int b = 0; b < 80; ++b) {
    work.blocks.push_back(
        block(BlockKind::layer, fmt::format("block {}", b),
              {hidden * hidden, 1024 * hidden, 1024 * hidden, hidden * hidden, middle * hidden,
               middle * hidden, middle * hidden, hidden, hidden}));
  }
  work.blocks.push_back(block(BlockKind::head, "head", {words * hidden, hidden}));
  work.micro_batches = 2;
  work.tokens = tokens;
  work.batch = 8 * tokens;
  work.input = tokens * hidden * 2;
  work.scratch = 64 * kMiB;
  work.tables = kMiB;
  return work;
}

class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(since_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

TEST(LargeModel, IsPlannedQuickly) {
  const Workload work = large_work();
  ASSERT_NEAR(static_cast<double>(work.parameters()), 70e9, 1e9);
  const Choices choices{.offload_fraction = 1,
                        .host_fraction = 0,
                        .chunk_parameters = default_chunk_parameters(work),
                        .recompute_blocks = 80,
                        .host_inputs = 0};
  Stopwatch watch;
  const Bytes barest = peak_alive(build_training(work, choices, {0}), Tier::device);
  const double bare = watch.lap();
  Program program = build_training(work, choices, {barest + 8 * kGiB});
  const double build = watch.lap();
  const Layout layout = lay_out(program);
  const double place = watch.lap();
  add_waits(program, layout);
  const double order = watch.lap();
  const Profile profile{.name = "one GPU",
                        .matmul_flops = 6e14,
                        .device_bytes_per_second = 4e12,
                        .up_bytes_per_second = 5.5e10,
                        .down_bytes_per_second = 5.5e10,
                        .host_bytes_per_second = 1.5e11,
                        .sum_bytes_per_second = 1.5e11,
                        .task_seconds = 5e-6};
  const Simulation simulation = simulate(program, profile);
  const double simulated = watch.lap();
  fmt::print(
      "{} chunks, {} tasks, {} objects: build {:.0f} ms (barest {:.0f} ms), layout {:.0f} ms, "
      "waits {:.0f} ms, simulate {:.0f} ms; a step of {:.2f} s predicted\n",
      program.chunks.size(), program.tasks.size(), program.objects.size(), 1e3 * build, 1e3 * bare,
      1e3 * place, 1e3 * order, 1e3 * simulated, simulation.step_seconds);
  for (const char* what : {"build", "layout", "waits", "simulate"}) {
    const std::string key = what;
    const double seconds = key == "build"    ? build
                           : key == "layout" ? place
                           : key == "waits"  ? order
                                             : simulated;
    RecordProperty(key + "_us", static_cast<int>(1e6 * seconds));
  }
  // Some milliseconds; a second leaves room for slow machines and sanitizers.
  EXPECT_LT(simulated, 1.0);
  EXPECT_GT(simulation.step_seconds, 0);
  EXPECT_LE(peak_alive(program, Tier::device), barest + 8 * kGiB);
  EXPECT_EQ(check_waits(program), "");
  EXPECT_EQ(check_written_first(program), "");
}

}  // namespace
}  // namespace ebb::plan
