#include "files/stored_type.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"

namespace ebb::files {
namespace {

// What IEEE says a half is, in arithmetic instead of bits.
double value_of_half(unsigned bits) {
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  const int exponent = static_cast<int>(bits >> 10 & 0x1f);
  const double fraction = static_cast<double>(bits & 0x3ff) / 1024;
  if (exponent == 0) return sign * std::ldexp(fraction, -14);
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  return sign * std::ldexp(1 + fraction, exponent - 15);
}

TEST(StoredTypeTest, EveryHalfWidensExactly) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    float found = 0;
    widen(StoredType::f16, std::as_bytes(std::span(&half, 1)), {&found, 1});
    const double expected = value_of_half(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(found)) << bits;
    } else {
      ASSERT_EQ(static_cast<double>(found), expected) << bits;
      ASSERT_EQ(std::signbit(found), bits >= 0x8000u) << bits;
    }
  }
}

TEST(StoredTypeTest, WidensFromAnyAddress) {
  const float values[] = {1.5f, -0x1p-140f, 3e38f};
  const bf16 halves[] = {to_bf16(1.5f), to_bf16(-2.25f), {0x0001}};
  for (const std::size_t shift : {0u, 1u, 3u}) {
    std::vector<std::byte> bytes(64);
    float found[3];
    std::memcpy(bytes.data() + shift, values, sizeof values);
    widen(StoredType::f32, std::span(bytes).subspan(shift, sizeof values), found);
    EXPECT_THAT(found, testing::ElementsAreArray(values));
    std::memcpy(bytes.data() + shift, halves, sizeof halves);
    widen(StoredType::bf16, std::span(bytes).subspan(shift, sizeof halves), found);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(found[i], to_float(halves[i]));
  }
}

TEST(StoredTypeTest, OnlyPartsOfFloatWiden) {
  for (int i = 0; i <= static_cast<int>(StoredType::boolean); ++i) {
    const auto type = static_cast<StoredType>(i);
    const bool expected =
        type == StoredType::f32 || type == StoredType::f16 || type == StoredType::bf16;
    EXPECT_EQ(widens_to_float(type), expected) << name_of(type);
    std::byte bytes[8]{};
    float value = 0;
    if (expected) continue;
    EXPECT_THROW(widen(type, bytes, {&value, 1}), FormatError) << name_of(type);
  }
}

TEST(StoredTypeTest, NamesAndSizesAndDTypes) {
  for (int i = 0; i <= static_cast<int>(StoredType::boolean); ++i) {
    const auto type = static_cast<StoredType>(i);
    EXPECT_EQ(try_stored_type(name_of(type)), type);
    EXPECT_THAT(stored_type_names(), testing::HasSubstr(std::string(name_of(type))));
    if (const auto dtype = try_dtype(type)) {
      EXPECT_EQ(stored_type(*dtype), type);
      EXPECT_EQ(size_of(*dtype), size_of(type));
    }
  }
  EXPECT_EQ(stored_type(DType::bf16), StoredType::bf16);
  EXPECT_EQ(try_dtype(StoredType::f16), std::nullopt);
  EXPECT_EQ(try_stored_type("F4"), std::nullopt);
}

}  // namespace
}  // namespace ebb::files
