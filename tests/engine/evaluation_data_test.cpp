// The data of an evaluation: everything once and in order, padding without loss, and the bytes that
// its targets spell.
#include "engine/evaluation_data.h"

#include <gtest/gtest.h>

#include "engine/evaluation_plan.h"
#include "engine/evaluation_run.h"
#include "engine/small_runs.h"
#include "files/made_files.h"
#include "io/posix_file_system.h"
#include "io/temp_folder.h"

namespace ebb::engine {
namespace {

constexpr std::int64_t kAll = std::int64_t{1} << 40;

class EvaluationDataTest : public testing::Test {
 protected:
  EvaluationDataTest() {
    options_.data = {(folder_.path() / "text.txt").string()};
    options_.sequence = 24;
    options_.micro_batch = 4;
    // 4 rows of 24 tokens in a batch: the last batch has three whole rows and a part of one.
    text_ = std::string(96 + 72 + 11, 'x');
    for (std::size_t i = 0; i < text_.size(); ++i) text_[i] = static_cast<char>('a' + i * i % 26);
    files::write_text(files_, options_.data.front(), text_);
  }

  EvaluationData data(std::int64_t rows, std::int64_t most = kAll) {
    options_.micro_batch = rows;
    return EvaluationData(files_, options_, tokenizer_, 300, most, [](const std::string&) {});
  }

  io::PosixFileSystem files_;
  io::TempFolder folder_;
  TrainOptions options_;
  files::ModelTokenizer tokenizer_ = files::load_tokenizer(files_, {}, "bytes");
  std::string text_;
};

TEST_F(EvaluationDataTest, HasEveryByteOnceAndInOrder) {
  EvaluationData data = this->data(4);
  std::string read;
  std::int64_t targets = 0, batches = 0;
  while (const auto batch = data.next()) {
    ++batches;
    for (std::size_t i = 0; i < batch->tokens.size(); ++i) {
      const std::int32_t target = batch->targets[i];
      targets += target >= 0 ? 1 : 0;
      if (target >= 0 && target < 256) read += static_cast<char>(target);
    }
  }
  EXPECT_EQ(batches, 2);
  EXPECT_TRUE(data.whole());
  EXPECT_EQ(data.share(), 1);
  // The first byte has nothing before it, and the end of the text is a target without bytes.
  EXPECT_EQ(read, text_.substr(1));
  EXPECT_EQ(targets, static_cast<std::int64_t>(text_.size()));
  EXPECT_EQ(data.target_bytes(), static_cast<Bytes>(text_.size()) - 1);
}

TEST_F(EvaluationDataTest, StopsWhereItIsTold) {
  EvaluationData data = this->data(4, 1);
  ASSERT_TRUE(data.next());
  EXPECT_EQ(data.share(), 1);
  EXPECT_FALSE(data.next());
  EXPECT_FALSE(data.whole());
}

// The same rows one at a time: padding in the last batch adds nothing.
TEST_F(EvaluationDataTest, AnIncompleteBatchIsTheSumOfItsRows) {
  const auto loss_with = [&](std::int64_t rows) {
    TrainingSettings s = small_settings();
    s.config.vocabulary = 300;
    s.dtype = s.gradient_type = DType::f32;
    s.shape = {.rows = rows, .sequence = options_.sequence};
    Runtime runtime(test_device(), 2);
    EvaluationRun run(runtime, s, plan_evaluation(runtime, s));
    run.load(files_, {.name = "made up", .config = s.config, .folder = {}, .stored_config = {}});
    EvaluationData data = this->data(rows);
    while (const auto batch = data.next()) run.add(*batch);
    run.finish();
    return run.total();
  };
  const Evaluation together = loss_with(4), alone = loss_with(1);
  EXPECT_EQ(together.loss_tokens, alone.loss_tokens);
  EXPECT_EQ(together.loss_tokens, static_cast<std::int64_t>(text_.size()));
  EXPECT_NEAR(together.loss_sum, alone.loss_sum, 1e-5 * alone.loss_sum);
}

}  // namespace
}  // namespace ebb::engine
