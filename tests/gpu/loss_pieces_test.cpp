// Cross entropy of rows in pieces on the GPU: near the reference, and the same bits whole (by a
// cluster of blocks where it can be, else by one block) and a piece at a time.
#include "gpu/model_ops_suite.h"
#include "kernels/loss_piece_cases.h"

namespace ebb::kernels {
namespace {

class CudaLossPieces : public ModelOpsSuite {};

TEST_F(CudaLossPieces, WholeRowsHaveTheBitsOfTheirPieces) {
  std::vector<PieceShape> shapes = piece_shapes();
  // More rows than run at once, and pieces that are too long for shared memory.
  shapes.push_back({700, 32776, 4160});
  shapes.push_back({4, 500008, 62528});
  shapes.push_back({3, 500009, 62528, 1});
  for (const PieceShape& s : shapes) {
    for (const DType type : {DType::f32, DType::bf16}) {
      if (s.in_place && type != DType::f32) continue;
      const OpCase c = loss_piece_case(type, s);
      ASSERT_NO_FATAL_FAILURE(expect_matches_reference(c));
      ReferenceOps reference;
      Buffers found = c.make(kSeed);
      c.prepare(reference, found);
      run(c, found, 0xff);
      ASSERT_NO_FATAL_FAILURE(expect_whole_is_pieces(c, s, found));
    }
  }
}

// How operands lie must not choose the bits: padded rows and odd addresses take other kernels.
TEST_F(CudaLossPieces, AlignmentChangesNoBit) {
  ReferenceOps reference;
  for (const DType type : {DType::f32, DType::bf16}) {
    std::vector<float> losses;
    for (const std::int64_t padding : {0, 1, 8}) {
      const PieceShape s{9, 33000, 4160, padding};
      const OpCase c = loss_piece_case(type, s);
      Buffers found = c.make(kSeed);
      c.prepare(reference, found);
      run(c, found, 0xff);
      std::vector<float> its(found[1].floats(), found[1].floats() + s.rows);
      if (losses.empty()) losses = its;
      EXPECT_EQ(losses, its) << c.name;
    }
  }
}

TEST_F(CudaLossPieces, TablesInPiecesHaveTheBitsOfTheWhole) {
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const float scale : {1.0f, 45.25f}) {
      for (const std::int64_t padding : {0, 1}) {
        const EmbedShape s{300, 64, 50, scale};
        OpCase forward = embed_case(type, s, padding);
        OpCase backward = embed_backward_case(type, s, padding);
        Buffers whole = forward.make(kSeed), cut = whole;
        Buffers sums = backward.make(kSeed), cut_sums = sums;
        run(forward, whole, 0xff);
        run(backward, sums, 0xff);
        constexpr std::int64_t rows = 16;
        forward.run = [&](ModelOps& ops, Buffers& x) {
          for (std::int64_t first = 0; first < s.vocabulary; first += rows) {
            const std::int64_t count = std::min(rows, s.vocabulary - first);
            ops.embed(x[0].view(), rows_of(x[1].view(), first, count), x[2].ids(), scale, first);
          }
        };
        backward.run = [&](ModelOps& ops, Buffers& x) {
          for (std::int64_t first = 0; first < s.vocabulary; first += rows) {
            const std::int64_t count = std::min(rows, s.vocabulary - first);
            ops.embed_backward(rows_of(x[0].view(), first, count), x[1].view(), x[2].ids(), scale,
                               first);
          }
        };
        run(forward, cut, 0xff);
        run(backward, cut_sums, 0xff);
        expect_same_bits(forward, whole[0], cut[0], "differs by pieces");
        expect_same_bits(backward, sums[0], cut_sums[0], "differs by pieces");
      }
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
