// Plans as values, and refusals that say what is missing where.
#include "ebb/plan.h"

#include "api/small_training.h"
#include "ebb/error.h"

namespace ebb {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::HasSubstr;
using testing::StartsWith;

class PlanTest : public SmallTraining {};

TEST_F(PlanTest, SaysWhatAStepTakesAndWhatElseThereIs) {
  TrainOptions o = options("none", 10);
  // What the machine has free changes from one moment to the next.
  o.device_memory = 256 * kMiB;
  o.host_memory = kGiB;
  const Plan plan = make_plan(o);
  EXPECT_GT(plan.step_seconds, 0);
  ASSERT_FALSE(plan.flags.empty());
  EXPECT_THAT(plan.flags, Each(StartsWith("--")));
  EXPECT_EQ(plan.explanation, explain_plan(o));
  ASSERT_FALSE(plan.alternatives.empty());
  for (const PlanAlternative& other : plan.alternatives) {
    EXPECT_THAT(plan.explanation, HasSubstr(other.flags));
    EXPECT_GT(other.speed, 0);
  }
  EXPECT_FALSE(std::filesystem::exists(at("none")));
}

TEST_F(PlanTest, OfAModelThatIsOpen) {
  const Model model = Model::open("preset:tiny");
  TrainOptions o = options("none", 1);
  o.model.clear();
  EXPECT_GT(make_plan(model, o).tokens_per_second, 0);
  const Plan elsewhere = make_plan(
      model,
      [&] {
        TrainOptions other = o;
        other.device = DeviceKind::automatic;
        return other;
      }(),
      "h200");
  EXPECT_THAT(elsewhere.explanation, HasSubstr("Speeds of"));
}

TEST_F(PlanTest, RefusalsTellTiersBytesAndRemedies) {
  TrainOptions o = options("none", 1);
  o.device_memory = 1 * kMiB;
  try {
    make_plan(o);
    FAIL() << "it fits";
  } catch (const OutOfBudget& error) {
    ASSERT_EQ(error.shortfalls().size(), 1u) << error.what();
    const Shortfall& device = error.shortfalls()[0];
    EXPECT_EQ(device.tier, "device");
    EXPECT_EQ(device.limit, 1 * kMiB);
    EXPECT_GT(device.needed, device.limit);
    EXPECT_EQ(device.missing(), device.needed - device.limit);
    EXPECT_THAT(error.what(), HasSubstr(fmt::format("({} bytes)", device.missing())));
    ASSERT_FALSE(error.remedies().empty());
    for (const std::string& remedy : error.remedies()) {
      EXPECT_THAT(error.what(), HasSubstr("  - " + remedy));
    }
  }
  // A remedy that names flags was tried.
  o.device_memory = 8 * kMiB;
  o.states = StatePlacement::resident;
  try {
    make_plan(o);
  } catch (const OutOfBudget& error) {
    EXPECT_THAT(error.remedies().front(), AnyOf(HasSubstr("fits with"), HasSubstr("smaller")));
  }
}

TEST_F(PlanTest, WrongOptionsNameTheirFlag) {
  const auto flag_of = [&](const std::function<void(TrainOptions&)>& change) {
    TrainOptions o = options("none", 1);
    change(o);
    try {
      make_plan(o);
    } catch (const ConfigError& error) {
      return error.flag();
    }
    return std::string("(no error)");
  };
  EXPECT_EQ(flag_of([](TrainOptions& o) { o.sequence = 0; }), "--sequence");
  EXPECT_EQ(flag_of([](TrainOptions& o) { o.recompute = -1; }), "--recompute");
  EXPECT_EQ(flag_of([](TrainOptions& o) { o.offload_fraction = 2; }), "--offload-fraction");
  EXPECT_EQ(flag_of([](TrainOptions& o) { o.eval_every = 2; }), "--eval-every");
  EXPECT_EQ(flag_of([](TrainOptions& o) { o.momentum = 0.5; }), "--momentum");
  EXPECT_EQ(flag_of([](TrainOptions& o) { o.threads = -1; }), "--threads");
  EXPECT_EQ(flag_of([](TrainOptions& o) { o.disk = {{.path = "/nowhere/at/all"}}; }), "--disk");
  EXPECT_EQ(
      flag_of([](TrainOptions& o) { o.gradients = FloatType::bf16, o.dtype = FloatType::fp32; }),
      "--gradients");
}

}  // namespace
}  // namespace ebb
