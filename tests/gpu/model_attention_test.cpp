// Attention on a GPU: own kernels against the reference, and the library's where it is built in.
#include "base/json.h"
#include "gpu/model_ops_suite.h"

namespace ebb::kernels {
namespace {

class CudaAttention : public ModelOpsSuite {};

std::vector<OpCase> attention_cases(DType t, std::int64_t padding) {
  const float scale = 0.25f;
  std::vector<OpCase> cases;
  for (const AttentionShape& s : {AttentionShape{1, 1, 1, 1, 1, 2, scale},
                                  {2, 5, 5, 4, 2, 8, scale},
                                  {1, 64, 64, 2, 2, 16, scale},
                                  {2, 65, 65, 2, 1, 16, scale},
                                  {1, 300, 300, 3, 1, 20, scale},
                                  {1, 100, 100, 4, 2, 64, scale},
                                  {1, 100, 100, 2, 1, 128, 0.1f},
                                  {1, 70, 70, 2, 1, 96, 0.1f},
                                  {1, 70, 70, 2, 1, 256, 0.0625f}}) {
    cases.push_back(attention_case(t, s, padding));
    cases.push_back(attention_backward_case(t, s, padding));
  }
  cases.push_back(attention_case(t, {2, 1, 700, 6, 2, 32, scale}, padding));
  cases.push_back(attention_case(t, {1, 3, 9, 2, 2, 10, scale}, padding));
  cases.push_back(attention_case(t, {2, 70, 400, 4, 4, 16, scale}, padding));
  cases.push_back(attention_case(t, {1, 1, 300, 4, 2, 128, 0.1f}, padding));
  return cases;
}

// Windows around the sizes of tiles (32 and 64), and longer than all keys. Most queries of a tile
// see nothing of its first keys, and some tiles are hidden whole.
std::vector<OpCase> window_cases(DType t, std::int64_t padding) {
  const float scale = 0.25f;
  std::vector<OpCase> cases;
  for (const std::int64_t window : {1, 2, 31, 32, 33, 63, 64, 65, 66, 130, 299, 300, 5000}) {
    for (const AttentionShape& s : {AttentionShape{2, 5, 5, 4, 2, 8, scale, window},
                                    {2, 65, 65, 2, 1, 16, scale, window},
                                    {1, 300, 300, 3, 1, 20, scale, window},
                                    {1, 100, 100, 2, 1, 128, 0.1f, window},
                                    {1, 127, 127, 2, 1, 256, 0.0625f, window}}) {
      cases.push_back(attention_case(t, s, padding));
      cases.push_back(attention_backward_case(t, s, padding));
    }
    cases.push_back(attention_case(t, {2, 1, 700, 6, 2, 32, scale, window}, padding));
    cases.push_back(attention_case(t, {1, 3, 9, 2, 2, 10, scale, window}, padding));
    cases.push_back(attention_case(t, {2, 70, 400, 4, 4, 16, scale, window}, padding));
    cases.push_back(attention_case(t, {1, 1, 300, 4, 2, 128, 0.1f, window}, padding));
  }
  return cases;
}

TEST_F(CudaAttention, AttentionMatchesReference) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const std::int64_t padding : {0, 3}) {
      for (const OpCase& c : attention_cases(t, padding)) {
        expect_matches_reference(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_F(CudaAttention, WindowedAttentionMatchesReference) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const std::int64_t padding : {0, 3}) {
      for (const OpCase& c : window_cases(t, padding)) {
        expect_matches_reference(c);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Products of bf16 tensor cores round probabilities to bf16: the whole result is close, not each
// element to its own rounding. A wrong mask, head or stride is off by as much as the values are.
void expect_close(const OpCase& c, const Buffer& expected, const Buffer& found) {
  ASSERT_TRUE(found.padding_untouched())
      << c.name << ": wrote outside of " << expected.operand().name;
  double squares = 0, error_squares = 0, largest = 0, largest_error = 0;
  for (std::int64_t i = 0; i < expected.operand().rows; ++i) {
    for (std::int64_t j = 0; j < expected.operand().cols; ++j) {
      const double want = expected.value(i, j), error = found.value(i, j) - want;
      ASSERT_FALSE(std::isnan(error)) << c.name << ": " << expected.operand().name << "[" << i
                                      << "][" << j << "] found " << found.value(i, j);
      squares += want * want, error_squares += error * error;
      largest = std::max(largest, std::abs(want));
      largest_error = std::max(largest_error, std::abs(error));
    }
  }
  EXPECT_LE(std::sqrt(error_squares), 0.01 * std::sqrt(squares))
      << c.name << ": " << expected.operand().name;
  EXPECT_LE(largest_error, 0.03 * largest) << c.name << ": " << expected.operand().name;
}

AttentionShape training_shape(std::int64_t batch, std::int64_t length, std::int64_t heads,
                              std::int64_t kv_heads, std::int64_t head_dim,
                              std::int64_t window = 0) {
  return {batch,
          length,
          length,
          heads,
          kv_heads,
          head_dim,
          static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim))),
          window};
}

TEST_F(CudaAttention, TrainingAttentionMatchesReference) {
  ReferenceOps reference;
  for (const AttentionShape& shape :
       {training_shape(2, 512, 12, 2, 128), training_shape(2, 512, 12, 2, 64),
        training_shape(1, 333, 4, 4, 128), training_shape(3, 128, 6, 3, 64),
        training_shape(2, 512, 12, 2, 128, 100), training_shape(2, 512, 12, 2, 64, 128),
        training_shape(1, 333, 4, 4, 128, 17), training_shape(1, 333, 4, 1, 64, 332),
        training_shape(3, 128, 6, 3, 64, 64), training_shape(1, 200, 4, 1, 256),
        training_shape(1, 200, 4, 1, 256, 70)}) {
    for (const OpCase& c :
         {attention_case(DType::bf16, shape, 0), attention_backward_case(DType::bf16, shape, 0)}) {
      Buffers inputs = c.make(kSeed);
      if (c.prepare) c.prepare(reference, inputs);
      Buffers expected = inputs, first = inputs, second = inputs;
      c.run(reference, expected);
      ASSERT_NO_THROW(run(c, first, 0xff)) << c.name;
      ASSERT_NO_THROW(run(c, second, 0x5a)) << c.name;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(expect_close(c, expected[i], first[i]));
        ASSERT_NO_FATAL_FAILURE(expect_same_bits(c, first[i], second[i], "differs when run again"));
      }
    }
  }
}

// Where the library's attention is built in, it does training shapes: own kernels, which need only
// a float for each query and head, would be silently slow.
TEST_F(CudaAttention, TrainingShapesUseTheLibrary) {
  if (cuda_model_numerics().at("attention") == "tiles") GTEST_SKIP() << "built without cuDNN";
  for (const std::int64_t head_dim : {64, 128}) {
    for (const std::int64_t window : {0, 256}) {
      const AttentionShape shape = training_shape(2, 1024, 12, 2, head_dim, window);
      EXPECT_GT(library_->attention_scratch(DType::bf16, shape, true),
                shape.batch * shape.heads * shape.queries * 64)
          << "window " << window;
    }
  }
}

// Bitwise, in the library and in own kernels: a placement or a setting that changes nothing must
// not change the numbers.
TEST_F(CudaAttention, WindowsAsLongAsAllKeysHideNothing) {
  for (const DType type : {DType::f32, DType::bf16}) {
    const AttentionShape plain = training_shape(2, 192, 4, 2, 64);
    for (const std::int64_t window : {192, 1000}) {
      AttentionShape wide = plain;
      wide.window = window;
      const OpCase cases[][2] = {
          {attention_case(type, plain, 0), attention_case(type, wide, 0)},
          {attention_backward_case(type, plain, 0), attention_backward_case(type, wide, 0)}};
      for (const auto& [without, with] : cases) {
        ReferenceOps reference;
        Buffers expected = without.make(kSeed);
        if (without.prepare) without.prepare(reference, expected);
        Buffers found = expected;
        ASSERT_NO_THROW(run(without, expected, 0xff)) << without.name;
        ASSERT_NO_THROW(run(with, found, 0xff)) << with.name;
        for (std::size_t i = 0; i < found.size(); ++i) {
          ASSERT_NO_FATAL_FAILURE(
              expect_same_bits(with, expected[i], found[i], "differs from that without a window"));
        }
      }
    }
  }
}

// A backward that is cut into slices (here of key heads, of the batch, and into tiles of positions,
// the last of them shorter), against own kernels in fp32 on the same values.
TEST_F(CudaAttention, SlicedAttentionMatchesFp32) {
  for (const AttentionShape& shape :
       {training_shape(1, 8192, 16, 4, 64), training_shape(5, 4096, 16, 4, 64),
        training_shape(1, 8192, 16, 4, 64, 1000), training_shape(1, 6000, 16, 1, 64),
        training_shape(1, 8300, 8, 1, 128)}) {
    const OpCase narrow = attention_backward_case(DType::bf16, shape, 0);
    const OpCase wide = attention_backward_case(DType::f32, shape, 0);
    const OpCase forward = attention_case(DType::bf16, shape, 0);
    Buffers inputs = narrow.make(kSeed);
    Buffers made = forward.make(kSeed);  // q, k and v have the same names, so the same values
    ASSERT_NO_THROW(run(forward, made, 0xff));
    inputs[0] = made[0], inputs[1] = made[1];
    Buffers widened = wide.make(kSeed);
    for (std::size_t b = 0; b < inputs.size(); ++b) {
      const Operand& operand = inputs[b].operand();
      for (std::int64_t i = 0; i < operand.rows; ++i) {
        for (std::int64_t j = 0; j < operand.cols; ++j) {
          widened[b].floats()[i * operand.cols + j] = inputs[b].value(i, j);
        }
      }
    }
    Buffers again = inputs;
    ASSERT_NO_THROW(run(narrow, inputs, 0xff)) << narrow.name;
    ASSERT_NO_THROW(run(narrow, again, 0x5a)) << narrow.name;
    ASSERT_NO_THROW(run(wide, widened, 0xff)) << wide.name;
    for (const std::size_t gradient : {6, 7, 8}) {
      ASSERT_NO_FATAL_FAILURE(
          expect_same_bits(narrow, inputs[gradient], again[gradient], "differs when run again"));
      ASSERT_NO_FATAL_FAILURE(expect_close(narrow, widened[gradient], inputs[gradient]));
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
