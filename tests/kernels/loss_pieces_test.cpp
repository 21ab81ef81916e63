// Cross entropy of rows in pieces on the CPU: near the reference, and the same bits whole and a
// piece at a time, on every instruction set and with any number of threads.
#include "kernels/loss_piece_cases.h"

#include "hwy/targets.h"
#include "kernels/cpu/cpu_model_library.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/op_table.h"
#include "kernels/reference/reference_ops.h"

namespace ebb::kernels {
namespace {

constexpr std::uint64_t kSeed = 7;

void expect_near(const OpCase& c, const Buffer& expected, const Buffer& found) {
  const Operand& operand = expected.operand();
  ASSERT_TRUE(found.padding_untouched()) << c.name << ": wrote outside of " << operand.name;
  const double rounding = operand.type == DType::f32 ? 1e-5 : 0x1p-7;
  for (std::int64_t i = 0; i < operand.rows; ++i) {
    for (std::int64_t j = 0; j < operand.cols; ++j) {
      const double want = expected.value(i, j), got = found.value(i, j);
      ASSERT_TRUE(want == got || std::abs(want - got) <= 1e-5 + rounding * std::abs(want))
          << c.name << ": " << operand.name << "[" << i << "][" << j << "] expected " << want
          << ", found " << got;
    }
  }
}

void expect_all(const OpCase& c, const PieceShape& s, Buffers& expected, Buffers& found) {
  for (const std::size_t i : {0, 1, 5, 6}) {
    ASSERT_NO_FATAL_FAILURE(expect_near(c, expected[i], found[i]));
  }
  ASSERT_NO_FATAL_FAILURE(expect_whole_is_pieces(c, s, found));
}

TEST(LossPieces, WholeRowsHaveTheBitsOfTheirPiecesOnEveryInstructionSet) {
  const auto use = [](std::int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().DeInit();
  };
  ReferenceOps reference;
  ThreadPool one(1), three(3);
  CpuModelLibrary with_one(one), with_three(three);
  for (const PieceShape& s : piece_shapes()) {
    for (const DType type : {DType::f32, DType::bf16}) {
      if (s.in_place && type != DType::f32) continue;
      const OpCase c = loss_piece_case(type, s);
      Buffers inputs = c.make(kSeed);
      c.prepare(reference, inputs);
      Buffers expected = inputs;
      c.run(reference, expected);
      ASSERT_NO_FATAL_FAILURE(expect_whole_is_pieces(c, s, expected));
      int tried = 0;
      for (std::int64_t left = hwy::SupportedTargets(); left != 0; left &= left - 1, ++tried) {
        use(left & -left);
        SCOPED_TRACE(hwy::TargetName(left & -left));
        Buffers found = inputs, again = inputs;
        CpuOps ops(with_one, {}), others(with_three, {});
        c.run(ops, found);
        c.run(others, again);
        use(0);
        ASSERT_NO_FATAL_FAILURE(expect_all(c, s, expected, found));
        EXPECT_EQ(found[0].bytes(), again[0].bytes()) << c.name << ": other threads";
        EXPECT_EQ(found[6].bytes(), again[6].bytes()) << c.name << ": other threads";
      }
      EXPECT_GT(tried, 1);
    }
  }
}

// One piece is a plain matrix, however it is asked for.
TEST(LossPieces, OnePieceIsTheWholeRow) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  CpuOps ops(library, {});
  const PieceShape s{7, 301, 301};
  const OpCase c = loss_piece_case(DType::bf16, s);
  Buffers x = c.make(kSeed);
  c.prepare(ops, x);
  c.run(ops, x);
  ASSERT_NO_FATAL_FAILURE(expect_whole_is_pieces(c, s, x));
  Buffers plain = x;
  ops.cross_entropy(plain[0].view(), plain[1].floats(), plain[2].view(), plain[3].ids(), 0.5f);
  EXPECT_EQ(plain[0].bytes(), x[0].bytes());
  EXPECT_EQ(plain[1].bytes(), x[1].bytes());
}

TEST(LossPieces, NotANumberReachesLossAndGradients) {
  ThreadPool pool(1);
  CpuModelLibrary library(pool);
  CpuOps ops(library, {});
  const PieceShape s{8, 100, 13};
  const OpCase c = loss_piece_case(DType::f32, s);
  for (int p = 0; p < s.pieces(); ++p) {
    Buffers x = c.make(kSeed);
    c.prepare(ops, x);
    static_cast<float*>(piece_of(in_pieces(x[2], s), p).data)[0] = std::nanf("");
    c.run(ops, x);
    EXPECT_TRUE(std::isnan(x[1].floats()[0]) && std::isnan(x[6].floats()[0])) << p;
    for (int other = 0; other < s.pieces(); ++other) {
      const View of_whole = piece_of(in_pieces(x[0], s), other);
      const View of_pieces = piece_of(in_pieces(x[5], s), other);
      EXPECT_TRUE(std::isnan(static_cast<float*>(of_whole.data)[1])) << p << " " << other;
      EXPECT_TRUE(std::isnan(static_cast<float*>(of_pieces.data)[1])) << p << " " << other;
    }
  }
}

// A table in pieces: each has the rows of its own ids and leaves the others alone.
TEST(EmbedPieces, HaveTheBitsOfTheWholeTable) {
  ThreadPool pool(2);
  CpuModelLibrary library(pool);
  CpuOps cpu(library, {});
  ReferenceOps reference;
  for (ModelOps* ops : {static_cast<ModelOps*>(&cpu), static_cast<ModelOps*>(&reference)}) {
    for (const DType type : {DType::f32, DType::bf16}) {
      for (const float scale : {1.0f, 2.34375f}) {
        const EmbedShape s{90, 33, 40, scale};
        const OpCase forward = embed_case(type, s, 1), backward = embed_backward_case(type, s, 1);
        for (const std::int64_t rows : {1, 7, 16, 40}) {
          Buffers whole = forward.make(kSeed), cut = whole;
          forward.run(*ops, whole);
          Buffers sums = backward.make(kSeed), cut_sums = sums;
          backward.run(*ops, sums);
          for (std::int64_t first = 0; first < s.vocabulary; first += rows) {
            const std::int64_t count = std::min(rows, s.vocabulary - first);
            ops->embed(cut[0].view(), rows_of(cut[1].view(), first, count), cut[2].ids(), scale,
                       first);
            ops->embed_backward(rows_of(cut_sums[0].view(), first, count), cut_sums[1].view(),
                                cut_sums[2].ids(), scale, first);
          }
          EXPECT_EQ(whole[0].bytes(), cut[0].bytes()) << forward.name << " by " << rows;
          EXPECT_EQ(sums[0].bytes(), cut_sums[0].bytes()) << backward.name << " by " << rows;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
