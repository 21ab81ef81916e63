// The CUDA model ops against ReferenceOps: within rounding, bitwise the same when run again over
// other leftovers in memory and scratch (a promise: results depend on shapes and values alone), and
// never outside of their operands or scratch. Skipped where there is no GPU.
#include <gtest/gtest.h>

#include "ebb/error.h"
#include "gpu/model_mirror.h"
#include "kernels/counting_ops.h"
#include "kernels/cuda/model_ops.h"
#include "kernels/op_table.h"
#include "kernels/reference/reference_ops.h"

namespace ebb::kernels {
namespace {

constexpr std::uint64_t kSeed = 7;

class CudaModelOps : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = device::create_device("cuda");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    mirror_ = std::make_unique<DeviceMirror>(*device_);
    ops_ = create_cuda_model_ops();
    ops_->bind_stream(mirror_->stream());
  }

  Bytes scratch_for(const OpCase& c, Buffers& buffers) {
    CountingOps counting(*ops_);
    c.run(counting, buffers);
    // A program multiplies matrices somewhere; sums of rows count on that.
    return std::max(counting.take().scratch, ops_->matmul_scratch({}, {}, {}, {}));
  }

  void run(const OpCase& c, Buffers& buffers, std::uint8_t poison) {
    mirror_->mirror(buffers, scratch_for(c, buffers), poison);
    ops_->bind_scratch(mirror_->scratch());
    MirroredOps mirrored(*ops_, *mirror_);
    c.run(mirrored, buffers);
    ops_->bind_scratch({});
    EXPECT_TRUE(mirror_->guard_untouched(poison)) << c.name << ": wrote behind the scratch";
  }

  void expect_matches_reference(const OpCase& c);

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<DeviceMirror> mirror_;
  std::unique_ptr<ModelOps> ops_;
};

double allowed(const OpCase& c, DType type, double expected) {
  const double rounding = type == DType::f32 ? 1e-5 : 0x1p-7;
  // cuBLASLt may round a product before it adds to it; neither term is larger than some units.
  const auto has = [&](const char* word) { return c.name.find(word) != std::string::npos; };
  const bool added = has("accumulate") || has("addend") || has("bias");
  const double before = added && type == DType::bf16 ? 0x1p-8 * 4 : 0;
  return c.tolerance + before + (c.tolerance == 0 ? 0 : rounding * std::abs(expected));
}

void expect_near(const OpCase& c, const Buffer& expected, const Buffer& found) {
  const Operand& operand = expected.operand();
  ASSERT_TRUE(found.padding_untouched()) << c.name << ": wrote outside of " << operand.name;
  for (std::int64_t i = 0; i < operand.rows; ++i) {
    for (std::int64_t j = 0; j < operand.cols; ++j) {
      const double want = expected.value(i, j), got = found.value(i, j);
      ASSERT_TRUE(std::abs(want - got) <= allowed(c, operand.type, want))
          << c.name << ", seed " << kSeed << ": " << operand.name << "[" << i << "][" << j
          << "] expected " << want << ", found " << got;
    }
  }
}

void expect_same_bits(const OpCase& c, const Buffer& expected, const Buffer& found,
                      const char* what) {
  const auto& a = expected.bytes();
  const auto& b = found.bytes();
  const auto at = std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin();
  ASSERT_EQ(at, static_cast<std::ptrdiff_t>(a.size()))
      << c.name << ": " << expected.operand().name << " " << what << ", at byte " << at;
}

void CudaModelOps::expect_matches_reference(const OpCase& c) {
  ReferenceOps reference;
  Buffers inputs = c.make(kSeed);
  if (c.prepare) c.prepare(reference, inputs);
  Buffers expected = inputs;
  c.run(reference, expected);
  Buffers first = inputs, second = inputs;
  ASSERT_NO_THROW(run(c, first, 0xff)) << c.name;
  ASSERT_NO_THROW(run(c, second, 0x5a)) << c.name;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].operand().type == DType::i32) continue;
    if (inputs[i].operand().role == Role::input) {
      ASSERT_NO_FATAL_FAILURE(expect_same_bits(c, inputs[i], first[i], "is an input and changed"));
    } else {
      ASSERT_NO_FATAL_FAILURE(expect_near(c, expected[i], first[i]));
    }
    ASSERT_NO_FATAL_FAILURE(expect_same_bits(c, first[i], second[i], "differs when run again"));
  }
}

std::vector<OpCase> matmul_cases() {
  std::vector<OpCase> cases;
  const DType f = DType::f32, b = DType::bf16;
  for (const auto& [in, out] : {std::pair{f, f}, {b, b}, {b, f}}) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        for (const auto& [m, n, k] : {std::tuple{1, 1, 1},
                                      {3, 5, 7},
                                      {16, 16, 16},
                                      {33, 129, 65},
                                      {128, 256, 64},
                                      {67, 300, 127}}) {
          for (const int extra : {0, 1, 2}) {
            for (const bool bias : {false, true}) {
              cases.push_back(matmul_case(in, out, {m, n, k, ta, tb, bias, extra, extra * 3}));
              cases.push_back(matmul_case(in, out, {m, n, k, ta, tb, bias, extra, 0}));
            }
          }
        }
        cases.push_back(matmul_case(in, out, {1, 700, 96, ta, tb, true, 0, 0}));
        cases.push_back(matmul_case(in, out, {300, 1, 40, ta, tb, true, 2, 1}));
        cases.push_back(matmul_case(in, out, {64, 96, 1100, ta, tb, true, 1, 0}));
        cases.push_back(matmul_case(in, out, {64, 64, 8192, ta, tb, false, 0, 0}));
        cases.push_back(matmul_case(in, out, {5, 6, 0, ta, tb, true, 1, 2}));
        cases.push_back(matmul_case(in, out, {0, 6, 4, ta, tb, false, 0, 0}));
      }
    }
  }
  // Tensor cores cut the tail of each partial sum instead of rounding it.
  for (OpCase& c : cases) c.tolerance *= 4;
  return cases;
}

TEST_F(CudaModelOps, MatmulMatchesReference) {
  for (const OpCase& c : matmul_cases()) {
    expect_matches_reference(c);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaModelOps, AttentionMatchesReference) {
  const float scale = 0.25f;
  std::vector<OpCase> cases;
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const std::int64_t padding : {0, 3}) {
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
    }
  }
  for (const OpCase& c : cases) {
    expect_matches_reference(c);
    if (HasFatalFailure()) return;
  }
}

std::vector<OpCase> streaming_cases(DType t) {
  std::vector<OpCase> cases;
  const DType f = DType::f32;
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{1, 1},
                                   {3, 7},
                                   {5, 16},
                                   {17, 33},
                                   {2, 129},
                                   {300, 65},
                                   {40, 1031},
                                   {2200, 64},
                                   {70, 2048},
                                   {9, 16384}}) {
    const std::int64_t pad = cols % 4;
    cases.push_back(column_sums_case(t, t, rows, cols, pad));
    cases.push_back(column_sums_case(t, f, rows, cols, pad));
    cases.push_back(embed_case(t, rows, cols, 11, pad));
    cases.push_back(embed_backward_case(t, rows, cols, 11, pad));
    cases.push_back(rms_norm_case(t, rows, cols, false, pad));
    cases.push_back(rms_norm_case(t, rows, cols, true, pad));
    cases.push_back(rms_norm_backward_case(t, t, rows, cols, pad));
    cases.push_back(rms_norm_backward_case(t, f, rows, cols, pad));
    cases.push_back(swiglu_case(t, rows, cols, pad));
    cases.push_back(swiglu_backward_case(t, rows, cols, false, pad));
    cases.push_back(swiglu_backward_case(t, rows, cols, true, pad));
    cases.push_back(cross_entropy_case(t, rows, cols, false, pad));
    cases.push_back(cross_entropy_case(f, rows, cols, true, pad));
    cases.push_back(convert_case(t, f, rows, cols, pad));
    cases.push_back(convert_case(f, t, rows, cols, pad));
  }
  cases.push_back(cross_entropy_case(t, 3, 50257, false, 0));
  cases.push_back(cross_entropy_case(t, 3, 151936, false, 0));
  for (const std::int64_t vocabulary : {1, 7, 5000}) {
    cases.push_back(embed_backward_case(t, 3001, 40, vocabulary, 0));
    cases.push_back(embed_backward_case(t, 1030, 1500, vocabulary, 1));
  }
  for (const bool inverse : {false, true}) {
    cases.push_back(rope_case(t, 7, {3, 10, 2, 4, inverse}, 1));
    cases.push_back(rope_case(t, 130, {2, 64, 0, 65, inverse}, 0));
    cases.push_back(rope_case(t, 33, {5, 128, 7, 16, inverse}, 0));
    cases.push_back(rope_case(t, 33, {5, 128, 7, 16, inverse}, 5));
  }
  return cases;
}

TEST_F(CudaModelOps, StreamingOpsMatchReference) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const OpCase& c : streaming_cases(type)) {
      expect_matches_reference(c);
      if (HasFatalFailure()) return;
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
                              std::int64_t kv_heads, std::int64_t head_dim) {
  return {batch,
          length,
          length,
          heads,
          kv_heads,
          head_dim,
          static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)))};
}

TEST_F(CudaModelOps, TrainingAttentionMatchesReference) {
  ReferenceOps reference;
  for (const AttentionShape& shape :
       {training_shape(2, 512, 12, 2, 128), training_shape(2, 512, 12, 2, 64),
        training_shape(1, 333, 4, 4, 128), training_shape(3, 128, 6, 3, 64)}) {
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
TEST_F(CudaModelOps, TrainingShapesUseTheLibrary) {
  if (cuda_model_numerics().at("attention") == "tiles") GTEST_SKIP() << "built without cuDNN";
  for (const std::int64_t head_dim : {64, 128}) {
    const AttentionShape shape = training_shape(2, 1024, 12, 2, head_dim);
    EXPECT_GT(ops_->attention_scratch(DType::bf16, shape, true),
              shape.batch * shape.heads * shape.queries * 64);
  }
}

// A backward that is cut into slices (here of key heads, then of the batch), against own kernels
// in fp32 on the same values.
TEST_F(CudaModelOps, SlicedAttentionMatchesFp32) {
  for (const AttentionShape& shape :
       {training_shape(1, 8192, 16, 4, 64), training_shape(5, 4096, 16, 4, 64)}) {
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
    ASSERT_NO_THROW(run(narrow, inputs, 0xff)) << narrow.name;
    ASSERT_NO_THROW(run(wide, widened, 0xff)) << wide.name;
    for (const std::size_t gradient : {6, 7, 8}) {
      ASSERT_NO_FATAL_FAILURE(expect_close(narrow, widened[gradient], inputs[gradient]));
    }
  }
}

TEST_F(CudaModelOps, ScratchOneByteTooSmallIsRefused) {
  for (const OpCase& c : {matmul_case(DType::bf16, DType::bf16, {64, 64, 64}),
                          attention_backward_case(DType::f32, {1, 64, 64, 1, 1, 16, 1.0f}, 0)}) {
    Buffers buffers = c.make(kSeed);
    CountingOps counting(*ops_);
    c.run(counting, buffers);
    const Bytes needed = counting.take().scratch;
    ASSERT_GT(needed, 256) << c.name;
    mirror_->mirror(buffers, needed, 0xff);
    MirroredOps mirrored(*ops_, *mirror_);
    // What is asked for has 256 bytes to align with; the mirror is aligned and needs none.
    const auto exact = static_cast<std::size_t>(needed - 256);
    ops_->bind_scratch(mirror_->scratch().first(exact - 1));
    EXPECT_THROW(c.run(mirrored, buffers), Error) << c.name;
    ops_->bind_scratch(mirror_->scratch().first(exact));
    EXPECT_NO_THROW(c.run(mirrored, buffers)) << c.name;
  }
}

TEST_F(CudaModelOps, NotANumberReachesTheResult) {
  for (const OpCase& c :
       {matmul_case(DType::f32, DType::f32, {70, 20, 30}),
        attention_case(DType::f32, {1, 70, 70, 1, 1, 16, 1.0f}, 0),
        attention_case(DType::f32, {1, 1, 70, 1, 1, 16, 1.0f}, 0),
        swiglu_case(DType::f32, 70, 16, 0), cross_entropy_case(DType::f32, 70, 40, false, 0),
        rms_norm_case(DType::f32, 70, 20, false, 0)}) {
    Buffers buffers = c.make(kSeed);
    for (Buffer& buffer : buffers) {
      if (buffer.operand().role == Role::input && buffer.operand().type == DType::f32) {
        buffer.floats()[0] = std::nanf("");
      }
    }
    run(c, buffers, 0xff);
    EXPECT_TRUE(std::isnan(buffers[0].value(0, 0)))
        << c.name << " found " << buffers[0].value(0, 0);
  }
}

TEST_F(CudaModelOps, ConvertRoundsAsToBf16ForAllHalves) {
  // Every bf16 pattern with the low halves around each rounding decision, NaN and denormals too.
  const std::vector<std::uint32_t> lows{0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu};
  const auto count = static_cast<std::int64_t>(0x10000 * lows.size());
  Buffers buffers{Buffer({"dst", Role::output, DType::bf16, 1, count}, kSeed),
                  Buffer({"src", Role::output, DType::f32, 1, count}, kSeed)};
  for (std::int64_t i = 0; i < count; ++i) {
    const auto high = static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(lows.size());
    const std::uint32_t low = lows[static_cast<std::size_t>(i) % lows.size()];
    buffers[1].floats()[i] = std::bit_cast<float>(high << 16 | low);
  }
  mirror_->mirror(buffers, 0, 0xff);
  MirroredOps(*ops_, *mirror_).convert(buffers[0].view(), buffers[1].view());
  for (std::int64_t i = 0; i < count; ++i) {
    const float from = buffers[1].floats()[i];
    ASSERT_EQ(static_cast<const bf16*>(buffers[0].data())[i].bits, to_bf16(from).bits)
        << "bits " << std::bit_cast<std::uint32_t>(from);
  }
}

TEST_F(CudaModelOps, SumsInFp64AndFillZeroStaysInside) {
  Buffers buffers{Buffer({"values", Role::input, DType::f32, 1, 70001}, kSeed),
                  Buffer({"total", Role::output, DType::f32, 1, 2}, kSeed)};
  double expected = 0;
  for (std::int64_t i = 0; i < 70001; ++i) expected += buffers[0].value(0, i);
  mirror_->mirror(buffers, 0, 0xff);
  MirroredOps mirrored(*ops_, *mirror_);
  mirrored.sum(static_cast<double*>(buffers[1].data()), buffers[0].floats(), 70001);
  double total = 0;
  std::memcpy(&total, buffers[1].data(), sizeof total);
  EXPECT_NEAR(total, expected, 1e-9);
  mirrored.sum(static_cast<double*>(buffers[1].data()), buffers[0].floats(), 0);
  std::memcpy(&total, buffers[1].data(), sizeof total);
  EXPECT_EQ(total, 0.0);

  const float last = buffers[0].value(0, 70000);
  mirrored.fill_zero(buffers[0].floats() + 1, 69999 * 4);
  EXPECT_NE(buffers[0].value(0, 0), 0.0f);
  EXPECT_EQ(buffers[0].value(0, 1), 0.0f);
  EXPECT_EQ(buffers[0].value(0, 69999), 0.0f);
  EXPECT_EQ(buffers[0].value(0, 70000), last);
}

}  // namespace
}  // namespace ebb::kernels
