// Cross entropy of rows in pieces, whole and a piece at a time in one case: both are compared with
// the reference as other ops are, and with each other bit for bit.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/views.h"
#include "op_cases.h"

namespace ebb::kernels {

struct PieceShape {
  std::int64_t rows, vocabulary;
  std::int64_t columns;  // of a piece
  std::int64_t padding = 0;
  bool in_place = false;  // gradients in the memory of logits, for fp32
  int pieces() const { return static_cast<int>((vocabulary + columns - 1) / columns); }
};

// A buffer's rows are those of the first piece, then those of the next. What the last piece is
// shorter by belongs to nobody: it is filled, and must stay as it is.
inline Pieces in_pieces(Buffer& buffer, const PieceShape& s) {
  View first = buffer.view();
  first.rows = s.rows;
  return {first, s.vocabulary, s.rows * first.stride};
}
inline ConstPieces to_read(const Pieces& pieces) {
  return {pieces.first, pieces.cols, pieces.distance};
}

// Targets in every piece, first and last columns among them, and rows without one. Some logits are
// minus infinity, in some rows those of a whole piece.
inline void set_targets(Buffers& x, const PieceShape& s) {
  const Pieces logits = in_pieces(x[2], s);
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const int p = static_cast<int>(i % s.pieces());
    const std::int64_t cols = piece_of(logits, p).cols;
    const std::int64_t at = i % 3 == 0 ? 0 : i % 3 == 1 ? cols - 1 : cols / 2;
    const bool counts = i % 7 != 5;
    x[3].ids()[static_cast<std::size_t>(i)] =
        counts ? static_cast<std::int32_t>(p * s.columns + at) : -1;
    const View empty = piece_of(logits, (p + 1) % s.pieces());
    for (std::int64_t j = 0; j < empty.cols && s.pieces() > 1; j += i % 2 == 0 ? 1 : 3) {
      static_cast<float*>(empty.data)[i * empty.stride + j] =
          -std::numeric_limits<float>::infinity();
    }
  }
}

// Operands 0 and 1 are the gradients and losses of whole rows, 5 and 6 those by pieces.
inline OpCase loss_piece_case(DType out, const PieceShape& s) {
  OpCase c;
  c.name = fmt::format("cross_entropy fp32>{} {}x{} in pieces of {} pad{}{}", name_of(out), s.rows,
                       s.vocabulary, s.columns, s.padding, s.in_place ? " in place" : "");
  const std::int64_t all = s.rows * s.pieces();
  constexpr auto words = static_cast<std::int64_t>(sizeof(RowStatistic) / 4);
  c.operands = {{"dlogits", Role::inout, out, all, s.columns, s.padding},
                {"losses", Role::output, DType::f32, 1, s.rows},
                {"logits", Role::input, DType::f32, all, s.columns, s.padding, 3.0},
                {"targets", Role::input, DType::i32, 1, s.rows, 0, 0, 0, s.vocabulary},
                {"statistics", Role::scratch, DType::f32, 1, all * words},
                {"dlogits by pieces", Role::inout, out, all, s.columns, s.padding},
                {"losses by pieces", Role::output, DType::f32, 1, s.rows}};
  c.prepare = [s](ModelOps&, Buffers& x) {
    set_targets(x, s);
    if (!s.in_place) return;
    for (Buffer* to : {&x[0], &x[5]}) {
      std::memcpy(const_cast<std::byte*>(to->bytes().data()), x[2].bytes().data(),
                  x[2].bytes().size());
    }
  };
  c.run = [s, out](ModelOps& ops, Buffers& x) {
    constexpr float scale = 0.5f;
    const Pieces whole = in_pieces(x[0], s), dlogits = in_pieces(x[5], s);
    ops.cross_entropy(whole, x[1].floats(), to_read(s.in_place ? whole : in_pieces(x[2], s)),
                      x[3].ids(), scale);
    const ConstPieces logits = to_read(s.in_place ? dlogits : in_pieces(x[2], s));
    auto* const each = reinterpret_cast<RowStatistic*>(x[4].data());
    const auto piece = [&](int p) { return RowPiece{piece_of(logits, p), p * s.columns}; };
    for (int p = 0; p < s.pieces(); ++p) {
      ops.row_statistics(each + p * s.rows, piece(p), x[3].ids(), out);
    }
    const RowStatistics statistics{each, s.rows, s.pieces(), s.columns};
    ops.row_losses(x[6].floats(), statistics, x[3].ids(), out);
    // Any order will do.
    for (int p = s.pieces() - 1; p >= 0; --p) {
      ops.row_gradients(piece_of(dlogits, p), piece(p), statistics, x[3].ids(), scale);
    }
  };
  return c;
}

// The promise: a row cut into the same pieces gives the same bits, all at once or one by one.
inline void expect_whole_is_pieces(const OpCase& c, const PieceShape& s, Buffers& x) {
  for (std::int64_t i = 0; i < s.rows; ++i) {
    const float whole = x[1].floats()[i], by_pieces = x[6].floats()[i];
    ASSERT_EQ(std::memcmp(&whole, &by_pieces, 4), 0)
        << c.name << ": loss " << i << ", whole " << whole << ", by pieces " << by_pieces;
  }
  const Pieces whole = in_pieces(x[0], s), by_pieces = in_pieces(x[5], s);
  const Bytes size = size_of(x[0].operand().type);
  for (int p = 0; p < s.pieces(); ++p) {
    const View a = piece_of(whole, p), b = piece_of(by_pieces, p);
    for (std::int64_t i = 0; i < s.rows; ++i) {
      const auto* first = static_cast<const std::byte*>(a.data) + i * a.stride * size;
      const auto* second = static_cast<const std::byte*>(b.data) + i * b.stride * size;
      const auto at = std::mismatch(first, first + a.cols * size, second).first - first;
      ASSERT_EQ(at, a.cols * size)
          << c.name << ": piece " << p << " row " << i << " column " << at / size << " differs";
    }
  }
}

// Columns as the model's grid has them, and others.
inline std::vector<PieceShape> piece_shapes() {
  return {{5, 32768, 4096},  {3, 32769, 4160},    {9, 32771, 4160, 1},   {4, 32776, 4224, 3},
          {17, 50257, 6336}, {3, 151936, 19008},  {6, 33000, 4160, 8},   {11, 100, 13},
          {9, 17, 3},        {8, 40, 8, 0, true}, {10, 97, 16, 3, true}, {3, 50257, 6336, 0, true}};
}

}  // namespace ebb::kernels
