// No kernel writes beyond its object: behind each lie bytes that nobody may change.
#include <gtest/gtest.h>

#include <cstring>

#include <fmt/format.h>

#include "device/cpu/cpu_device.h"
#include "ebb/error.h"
#include "engine/small_runs.h"
#include "memory/arena.h"
#include "plan/layout.h"
#include "plan/waits.h"

namespace ebb::engine {
namespace {

constexpr Bytes kZone = plan::kAlignment;

// The same plan with larger objects, which lie elsewhere.
plan::Plan with_red_zones(plan::Plan plan) {
  // Who uses an object to its end uses what is behind it, too, as far as waits are concerned.
  for (plan::Task& task : plan.program.tasks) {
    for (plan::Use& use : task.uses) {
      const plan::Range range = plan.program.range_of(use);
      const Bytes end = plan::align_up(range.first + range.bytes);
      if (end == plan.program[use.object].bytes) use.range.bytes = -1;
    }
  }
  for (plan::Object& object : plan.program.objects) {
    if (object.bytes > 0) object.bytes += kZone;
  }
  plan.layout = plan::lay_out(plan.program);
  plan::add_waits(plan.program, plan.layout);
  return plan;
}

TEST(RedZone, NoTaskOfATrainingStepWritesBehindItsObjects) {
  if (test_device() != "cpu") GTEST_SKIP() << "of the cpu device's memory";
  for (const int accumulate : {1, 2, 3}) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
      for (const double host : {0.0, 0.4, 1.0}) {
        TrainingSettings settings = small_settings();
        settings.accumulate = accumulate;
        settings.dtype = settings.gradient_type = dtype;
        settings.shape = {.rows = 3, .sequence = 17};
        if (accumulate == 2) settings.shape.largest_tile = 10;
        settings.config.vocabulary = 97;
        settings.fixed.site.reset();
        settings.fixed.offload_fraction = 0.8;
        settings.fixed.host_fraction = 0.8 * host;
        settings.fixed.recompute_blocks = 1;
        settings.fixed.host_inputs = 1;
        settings.fixed.cheap_saved_blocks = 1;
        settings.fixed.streamed_weights = 2 * accumulate - 1;
        settings.fixed.host_sums = 2 * (accumulate - 1);
        const std::string expected = train_small(settings, 2, 2).weights;
        settings.disturbance.red_zone = kZone;
        Runtime runtime("cpu", 2);
        TrainingRun run(runtime, settings, with_red_zones(plan_training(runtime, settings)));
        initialize(run);
        const std::string where = fmt::format("accumulate {} {} host {}", accumulate,
                                              dtype == DType::bf16 ? "bf16" : "fp32", host);
        EXPECT_NO_THROW({
          for (int step = 0; step < 2; ++step) run.step(made_up_batches(settings, step));
          run.evaluate(made_up_batches(settings, 0).front());
          run.finish();
        }) << where;
        EXPECT_EQ(run.store().weights_digest(), expected) << where;
      }
    }
  }
}

// The same where embedding and head run by pieces of the vocabulary.
TEST(RedZone, NoTaskWithAPieceOfTheVocabularyWritesBehindItsObjects) {
  if (test_device() != "cpu") GTEST_SKIP() << "of the cpu device's memory";
  for (const bool tied : {false, true}) {
    for (const DType dtype : {DType::bf16, DType::f32}) {
      for (const std::int64_t away : {0, 5}) {
        TrainingSettings settings = small_settings();
        settings.accumulate = 2;
        settings.dtype = settings.gradient_type = dtype;
        settings.config.vocabulary = 32'801;
        settings.config.tied = tied;
        settings.fixed.streamed_weights = settings.fixed.host_sums = away;
        settings.fixed.chunk_parameters = 1 << 18;
        const std::string expected = train_small(settings, 2, 2).weights;
        settings.fixed.vocabulary_cut = 1;
        settings.disturbance.red_zone = kZone;
        Runtime runtime("cpu", 2);
        TrainingRun run(runtime, settings, with_red_zones(plan_training(runtime, settings)));
        initialize(run);
        const std::string where =
            fmt::format("{} {} {} away", tied ? "tied" : "untied", name_of(dtype), away);
        EXPECT_NO_THROW({
          for (int step = 0; step < 2; ++step) run.step(made_up_batches(settings, step));
          run.evaluate(made_up_batches(settings, 0).front());
          run.finish();
        }) << where;
        EXPECT_EQ(run.store().weights_digest(), expected) << where;
      }
    }
  }
}

// A program of one task that writes `bytes` into its object of 512.
void write(Bytes bytes, bool persistent) {
  plan::Program program;
  program.objects.push_back({.persistent = persistent, .bytes = 512 + kZone, .name = "thing"});
  program.tasks.push_back({.op = plan::Op::embed,
                           .lane = plan::Lane::compute,
                           .block = 3,
                           .uses = {{plan::Role::output, 0, plan::Access::write}}});
  program.find_lifetimes();
  const plan::Layout layout = plan::lay_out(program);
  plan::add_waits(program, layout);
  device::CpuDevice device(kMiB);
  memory::Arena arena("device", device.allocate_device(layout.size_of(plan::Tier::device)));
  memory::Arena host("host", device.allocate_host(0));
  exec::Executor executor(device, {&arena, &host},
                          {{&program, &layout,
                            [&](exec::TaskRun& run) {
                              std::memset(run.write(plan::Role::output, 512), 1,
                                          static_cast<std::size_t>(bytes));
                            }}},
                          {.red_zone = kZone});
  executor.issue();
  executor.drain();
}

TEST(RedZone, OneByteTooManyIsSeenAndNamed) {
  for (const bool persistent : {false, true}) {
    EXPECT_NO_THROW(write(512, persistent));
    try {
      write(513, persistent);
      ADD_FAILURE() << "nobody saw it";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what())
                    .find("thing on the device: byte 0 behind its end was "
                          "written, seen after the task 'embed' of block 3"),
                std::string::npos)
          << error.what();
    }
  }
}

// What tasks say they use is what the system sees touched. Pages are counted whole, and may be
// huge.
TEST(TouchedPages, AreThoseOfTheArena) {
  if (test_device() != "cpu") GTEST_SKIP() << "of the cpu device's memory";
  TrainingSettings settings = small_settings();
  settings.config.hidden = 256;
  settings.config.head_dim = 64;
  settings.config.intermediate = 704;
  settings.shape = {.rows = 4, .sequence = 128};
  Runtime runtime("cpu", 2);
  TrainingRun run(runtime, settings);
  using plan::Tier;
  EXPECT_LE(*run.touched_bytes(Tier::device),
            run.plan().layout.size_of(Tier::device) / 2 + 4 * kMiB)
      << "nothing has run yet";
  initialize(run);
  for (int step = 0; step < 2; ++step) run.step(made_up_batches(settings, step));
  run.finish();
  for (const Tier tier : {Tier::device, Tier::host}) {
    EXPECT_LE(*run.touched_bytes(tier), run.plan().layout.size_of(tier) + 4 * kKiB) << tier.index;
  }
  EXPECT_GE(*run.touched_bytes(Tier::device), run.plan().layout.size_of(Tier::device) * 9 / 10);
}

}  // namespace
}  // namespace ebb::engine
