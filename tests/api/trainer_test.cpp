// Training by object: a step at a time, several at once, stopped, and the same as by verb.
#include "ebb/trainer.h"

#include <filesystem>
#include <thread>

#include "api/small_training.h"
#include "ebb/error.h"

namespace ebb {
namespace {

using testing::HasSubstr;

class TrainerTest : public SmallTraining {};

TEST_F(TrainerTest, StepByStepIsWhatTheVerbDoes) {
  Listener listener;
  const TrainSummary whole = train(options("whole", 4), listener);
  Trainer trainer(options("steps", 4));
  std::vector<double> losses;
  while (const auto report = trainer.step()) losses.push_back(report->loss);
  const TrainSummary summary = trainer.finish();
  EXPECT_EQ(digest(summary), digest(whole));
  EXPECT_EQ(summary.steps, 4);
  EXPECT_FALSE(summary.stopped);
  ASSERT_EQ(losses.size(), 4u);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_EQ(losses[i], listener.reports[i].loss);
  EXPECT_TRUE(std::filesystem::exists(summary.checkpoint + "/model.safetensors"));
}

// Validation and saves on the way change nothing of what is learned.
TEST_F(TrainerTest, ValidatesAndSavesWhenAsked) {
  Listener listener;
  const TrainSummary whole = train(options("whole", 3), listener);
  TrainOptions o = options("asked", 3);
  o.eval_data = o.data;
  o.eval_batches = 2;
  Trainer trainer(o);
  const auto before = trainer.evaluate();
  ASSERT_TRUE(before);
  ASSERT_TRUE(trainer.step());
  const std::string first = trainer.save();
  EXPECT_THAT(first, HasSubstr("step-00000001"));
  EXPECT_TRUE(std::filesystem::exists(first + "/model.safetensors"));
  while (trainer.step()) {
  }
  EXPECT_LT(*trainer.evaluate(), *before);
  EXPECT_EQ(digest(trainer.finish()), digest(whole));
  // Nothing to validate on, nothing to save.
  TrainOptions none = options("none", 1);
  none.keep = 0;
  Trainer other(none);
  EXPECT_FALSE(other.evaluate());
  EXPECT_THROW(other.save(), ConfigError);
}

TEST_F(TrainerTest, SeveralShareAModelAndAProcess) {
  Listener listener;
  const TrainSummary whole = train(options("whole", 3), listener);
  const Model model = Model::open("preset:tiny");
  TrainOptions tight = options("second", 3);
  tight.offload_fraction = 1;
  Trainer first(model, options("first", 3));
  Trainer second(model, tight);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(first.step());
    EXPECT_TRUE(second.step());
  }
  EXPECT_EQ(digest(first.finish()), digest(whole));
  EXPECT_EQ(digest(second.finish()), digest(whole));
  // And at the same time.
  std::string third, fourth;
  std::thread other([&] { third = digest(Trainer(model, options("third", 3)).run()); });
  fourth = digest(Trainer(model, options("fourth", 3)).run());
  other.join();
  EXPECT_EQ(third, digest(whole));
  EXPECT_EQ(fourth, digest(whole));
}

TEST_F(TrainerTest, AStopEndsAfterASaveAndTheRunGoesOn) {
  Listener listener;
  TrainOptions o = options("whole", 6);
  const TrainSummary whole = train(o, listener);
  std::stop_source source;
  listener.on_step = [&](const StepReport& report) {
    if (report.step == 2) source.request_stop();
  };
  o = options("stopped", 6);
  const TrainSummary stopped = train(o, listener, source.get_token());
  EXPECT_TRUE(stopped.stopped);
  EXPECT_EQ(stopped.steps, 2);
  EXPECT_THAT(stopped.checkpoint, HasSubstr("step-00000002"));
  o.resume = true;
  EXPECT_EQ(digest(Trainer(o).run()), digest(whole));
}

TEST_F(TrainerTest, AStopBeforeTheFirstStepLeavesNothing) {
  std::stop_source source;
  source.request_stop();
  EXPECT_THROW(Trainer(options("never", 2), nullptr, source.get_token()).run(), Cancelled);
  // While weights are read, of which there are more than one piece.
  Listener listener;
  TrainOptions o = options("made", 1);
  train(o, listener);
  o = options("read", 1);
  o.model = at("made");
  std::stop_source later;
  struct Stopper : Listener {
    void note(const std::string& text) override {
      Listener::note(text);
      if (text.find("needed") != std::string::npos || text.find("peak") != std::string::npos ||
          text.find("--states") != std::string::npos) {
        source->request_stop();  // the plan is there
      }
    }
    std::stop_source* source = nullptr;
  } stopper;
  stopper.source = &later;
  Trainer trainer(o, &stopper, later.get_token());
  trainer.plan();
  ASSERT_TRUE(later.stop_requested()) << stopper.notes;
  EXPECT_THROW(trainer.step(), Cancelled);
  EXPECT_FALSE(std::filesystem::exists(at("read") + "/log.jsonl"));
}

TEST_F(TrainerTest, AStopInterruptsAValidation) {
  TrainOptions o = options("run", 2);
  o.eval_data = o.data;
  std::stop_source source;
  Trainer trainer(o, nullptr, source.get_token());
  ASSERT_TRUE(trainer.step());
  source.request_stop();
  EXPECT_FALSE(trainer.evaluate());
  EXPECT_FALSE(trainer.step());
  const TrainSummary summary = trainer.finish();
  EXPECT_TRUE(summary.stopped);
  EXPECT_EQ(summary.steps, 1);
}

TEST_F(TrainerTest, AFailureSavesAndEndsIt) {
  TrainOptions o = options("run", 5);
  Listener listener;
  listener.on_step = [](const StepReport& report) {
    if (report.step == 2) throw ConfigError("--summary: nobody reads any more");
  };
  Trainer trainer(o, &listener);
  ASSERT_TRUE(trainer.step());
  try {
    trainer.step();
    FAIL() << "no error";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.flag(), "--summary");
    EXPECT_THAT(error.what(), HasSubstr("step-00000002"));
  }
  EXPECT_THROW(trainer.step(), Error);
  EXPECT_THROW(trainer.finish(), Error);
}

TEST_F(TrainerTest, ItsPlanIsOfThisRun) {
  TrainOptions o = options("run", 1);
  o.states = StatePlacement::stream;
  Trainer trainer(o);
  const Plan plan = trainer.plan();
  EXPECT_GT(plan.step_seconds, 0);
  EXPECT_NEAR(plan.tokens_per_second * plan.step_seconds, 64, 1e-6);
  ASSERT_GE(plan.tiers.size(), 2u);
  EXPECT_EQ(plan.tiers[0].tier, "device");
  EXPECT_EQ(plan.tiers[1].tier, "host");
  for (const TierUse& use : plan.tiers) EXPECT_LE(use.peak, use.limit) << use.tier;
  EXPECT_THAT(plan.flags, testing::Contains(HasSubstr("--states stream")));
  EXPECT_TRUE(trainer.step());
  EXPECT_EQ(trainer.plan().flags, plan.flags);
}

}  // namespace
}  // namespace ebb
