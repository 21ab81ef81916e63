// evaluate() as a library: reports, stops, and what its summary says.
#include "ebb/evaluate.h"

#include "api/small_training.h"
#include "ebb/error.h"

namespace ebb {
namespace {

using testing::HasSubstr;

struct Reports : EvaluateObserver {
  void note(const std::string& text) override { notes += text + "\n"; }
  void batch(const EvaluateReport& report) override {
    reports.push_back(report);
    if (on_batch) on_batch();
  }
  std::string notes;
  std::vector<EvaluateReport> reports;
  std::function<void()> on_batch;
};

class EvaluateTest : public SmallTraining {
 protected:
  EvaluateOptions options() const {
    EvaluateOptions o;
    o.model = "preset:tiny";
    o.data = {at("data.txt")};
    o.sequence = 32;
    o.micro_batch = 2;
    o.device = small_device();
    return o;
  }
};

TEST_F(EvaluateTest, ReportsEveryBatchAndAddsThemUp) {
  Reports heard;
  const EvaluateSummary found = evaluate(options(), heard);
  ASSERT_FALSE(heard.reports.empty());
  std::int64_t before = 0;
  for (const EvaluateReport& report : heard.reports) {
    EXPECT_GT(report.batches, before);
    EXPECT_GE(report.seconds_left, 0);
    before = report.batches;
  }
  const EvaluateReport& last = heard.reports.back();
  EXPECT_EQ(last.batches, found.batches);
  EXPECT_EQ(last.loss, found.loss);
  EXPECT_EQ(last.loss_tokens, found.loss_tokens);
  EXPECT_EQ(last.share, 1);
  EXPECT_EQ(last.seconds_left, 0);
  EXPECT_TRUE(found.whole);
  EXPECT_FALSE(found.stopped);
  EXPECT_LE(found.device_peak, found.device_limit);
  EXPECT_THAT(heard.notes, HasSubstr("Plan: --weights resident"));
}

TEST_F(EvaluateTest, StopsAfterWhatIsUnderWay) {
  Reports heard;
  std::stop_source stop;
  heard.on_batch = [&] { stop.request_stop(); };
  const EvaluateSummary found = evaluate(options(), heard, stop.get_token());
  EXPECT_TRUE(found.stopped);
  EXPECT_FALSE(found.whole);
  EXPECT_GE(found.batches, 1);
  EXPECT_LE(found.batches, 3);
  EvaluateOptions same = options();
  same.batches = found.batches;
  Reports quiet;
  EXPECT_EQ(evaluate(same, quiet).loss, found.loss);
  Reports none;
  EXPECT_THROW(evaluate(options(), none, stop.get_token()), Cancelled);
}

}  // namespace
}  // namespace ebb
