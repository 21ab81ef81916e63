// Blocks of a few bits against the gguf package (tools/golden/make_gguf.py), bit by bit, and
// against numbers worked out by hand.
#include "kernels/reference/weight_blocks.h"

#include <bit>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/half.h"
#include "files/gguf/gguf_files.h"
#include "io/posix_file_system.h"
#include "paths.h"

namespace ebb::kernels {
namespace {

std::uint32_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }

class GoldenBlocks : public testing::TestWithParam<const char*> {};

TEST_P(GoldenBlocks, AreThoseOfTheGgufPackage) {
  io::PosixFileSystem file_system;
  const files::GgufFiles files(file_system, golden_folder("gguf") / "blocks.gguf");
  const auto read = [&](const std::string& name) {
    const auto [part, tensor] = files.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    // One byte further: blocks need not be aligned.
    std::vector<std::byte> bytes(static_cast<std::size_t>(tensor->bytes) + 1);
    part->file->read(tensor->offset, std::span(bytes).subspan(1));
    std::vector<float> values(static_cast<std::size_t>(tensor->count()));
    widen_blocks(tensor->type, std::span(bytes).subspan(1), values);
    EXPECT_EQ(tensor->shape, (std::vector<std::int64_t>{3, 512}));
    return values;
  };
  const std::string name = GetParam();
  EXPECT_EQ(name_of(files.find(name).tensor->type), name);
  const std::vector<float> found = read(name);
  const std::vector<float> expected = read(name + ".wide");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(bits(found[i]), bits(expected[i]))
        << name << " element " << i << ": found " << found[i] << ", expected " << expected[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GoldenBlocks,
                         testing::Values("F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0",
                                         "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"),
                         [](const auto& info) { return std::string(info.param); });

std::vector<float> widened(WeightType type, const std::vector<unsigned>& bytes) {
  std::vector<std::byte> block(static_cast<std::size_t>(grain_of(type).bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) block[i] = static_cast<std::byte>(bytes[i]);
  std::vector<float> values(static_cast<std::size_t>(grain_of(type).per));
  widen_blocks(type, block, values);
  return values;
}

// 0x3800 is one half as a half precision number.
TEST(WeightTypes, SmallOnesByHand) {
  const std::vector<float> eight = widened(WeightType::q8_0, {0x00, 0x38, 0x01, 0xff, 0x80});
  EXPECT_EQ(eight[0], 0.5f);
  EXPECT_EQ(eight[1], -0.5f);
  EXPECT_EQ(eight[2], -64.0f);
  EXPECT_EQ(eight[31], 0.0f);
  const std::vector<float> four = widened(WeightType::q4_0, {0x00, 0x38, 0xf0});
  EXPECT_EQ(four[0], -4.0f);
  EXPECT_EQ(four[16], 3.5f);
  EXPECT_EQ(four[1], -4.0f);
}

// A block is bad where one of its numbers is not finite, wherever the bytes that say so are.
TEST(WeightTypes, BadBlocksAreThoseWithNumbersThatAreNotFinite) {
  for (const WeightType type : kWeightTypes) {
    if (!in_blocks(type)) continue;
    const auto [bytes, per] = grain_of(type);
    int bad = 0;
    for (Bytes at = 0; at + 1 < bytes; ++at) {
      std::vector<std::byte> blocks(static_cast<std::size_t>(2 * bytes), std::byte{0x11});
      blocks[static_cast<std::size_t>(bytes + at)] = std::byte{0x00};
      blocks[static_cast<std::size_t>(bytes + at + 1)] = std::byte{0x7c};
      std::vector<float> values(static_cast<std::size_t>(2 * per));
      widen_blocks(type, blocks, values);
      bool finite = true;
      for (const float value : values) finite = finite && std::isfinite(value);
      EXPECT_EQ(find_bad_block(type, blocks), finite ? -1 : 1) << name_of(type) << " byte " << at;
      bad += finite ? 0 : 1;
    }
    EXPECT_EQ(bad, has_offsets(type) ? 2 : 1) << name_of(type);
  }
}

TEST(WeightTypes, NoBlocksAreNothing) {
  for (const WeightType type : kWeightTypes) widen_blocks(type, {}, {});
}

TEST(WeightTypes, HaveSizesThatFitTheirNumbers) {
  for (const WeightType type : kWeightTypes) {
    if (!in_blocks(type)) continue;
    const Grain grain = grain_of(type);
    const double bits_each =
        8.0 * static_cast<double>(grain.bytes) / static_cast<double>(grain.per);
    const double named = name_of(type)[1] - '0';
    EXPECT_GE(bits_each, named) << name_of(type);
    EXPECT_LE(bits_each, named + 1) << name_of(type);
  }
}

TEST(Half, EveryPattern) {
  for (std::uint32_t half = 0; half < 0x10000; ++half) {
    const float value = half_to_float(static_cast<std::uint16_t>(half));
    const int exponent = static_cast<int>(half >> 10 & 31);
    const auto fraction = static_cast<float>(half & 1023);
    const float sign = half & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0) << half;
      EXPECT_TRUE(fraction != 0 || std::isinf(value)) << half;
    } else {
      const float expected =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      ASSERT_EQ(bits(value), bits(sign * expected)) << half;
    }
  }
}

}  // namespace
}  // namespace ebb::kernels
