// Products with stored weights: the specification, with the order of sums, which is the same for
// every instruction set. A row of y is made from one row of x; nothing else is known to it.
#pragma once

#include <cstdint>
#include <span>

#include "base/list.h"
#include "kernels/model_ops.h"

namespace ebb::kernels::reference {

// A row as 8-bit numbers: number k is q[k] * scale[k / 32], with |q| <= 127. Of each 32, `scale` is
// the largest magnitude / 127, and q is x * (127 / largest) rounded to the nearest integer, ties to
// even (each operation rounded to fp32), so it is at most half a scale off, and 2^-15 of one for
// the roundings on the way. A largest below 2^-100 makes 32 zeros of scale 0; a number among them
// that is not finite makes zeros whose scale is NaN, so that every sum that it is in is NaN.
struct EightBitRow {
  List<std::int8_t> q;
  List<float> scale;
};
inline constexpr std::int64_t kEightBitBlock = 32;
EightBitRow eight_bit_row(std::span<const float> x);

// Every dot product here has partial sums in fp32, added up by halves: s[l] += s[l + n / 2] for l
// below n / 2, then the same with n / 2, down to one. All partial sums begin with +0, and take what
// belongs to them in the order of k.

// x in fp32, or plain weights that are not bf16: 16 partial sums, of which number k % 16 takes
// fma(x[k], w[k], s).
float dot(std::span<const float> x, std::span<const float> w);
// Both bf16: 16 partial sums, of which number k % 32 / 2 takes fma(x[k], w[k], s). Where the
// processor has an instruction for dot products of bf16 (AVX512_BF16), it takes pairs of k by
// that, whose roundings are its own, and denormals are zeros to it.
float dot_of_pairs(std::span<const float> x, std::span<const float> w);
// x in 8 bits, weights in blocks of q * scale - offset. 16 partial sums, of which number k % 64 / 4
// takes t = the exact sum of x.q * q over four k as fma(scale * x.scale, t, s). Where the type has
// offsets, further partial sums, one for each group of numbers that share one, 8 or 16 in 256
// numbers, as 256 / group: number k % 256 / group takes fma(offset, x.scale * t, s), where t is the
// exact sum of x.q over the group. The result is the first sum less the second.
float dot(const EightBitRow& x, const WeightMatrix& weights, std::int64_t row);

// Then the bias is added, then the addend, each rounded to fp32, and the sum is rounded to y's
// type.
void linear(View y, ConstView x, const WeightMatrix& weights, const LinearOptions& options);

// Widened, times `scale` in fp32, rounded to out's type.
void embed(View out, const WeightMatrix& table, std::span<const std::int32_t> ids, float scale,
           std::int64_t first);

}  // namespace ebb::kernels::reference
