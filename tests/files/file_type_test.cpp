// Which tensor of a kind of file gets which type: rows of llama.cpp's own files (compared tensor by
// tensor with what its llama_model_quantize makes, bench/results/2026-11-18-quantize.md).
#include "files/gguf/file_type.h"

#include <map>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ebb/error.h"

namespace ebb::files {
namespace {

std::string type_of(const char* file, const MixedModel& model, const std::string& name,
                    std::int64_t columns) {
  const std::vector<std::int64_t> shape = {64, columns};
  return std::string(
      name_of(type_in_file(gguf_file_type(file, "--type"), model, name, shape).type));
}

// The types of a tensor in all layers, one letter of bits each.
std::string by_layer(const char* file, const MixedModel& model, const char* name) {
  std::string types;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    types += type_of(file, model, fmt::format("blk.{}.{}.weight", layer, name), 512)[1];
  }
  return types;
}

const MixedModel kGrouped{"llama", 16, 8, 2, false};
const MixedModel kPlain{"llama", 16, 8, 8, false};

TEST(GgufFileType, LayersOfAKind) {
  EXPECT_EQ(by_layer("q4_k_m", kGrouped, "attn_v"), "6644644644644666");
  EXPECT_EQ(by_layer("q4_k_m", kGrouped, "ffn_down"), "6644644644644666");
  EXPECT_EQ(by_layer("q5_k_m", kGrouped, "attn_v"), "6655655655655666");
  EXPECT_EQ(by_layer("q4_k_s", kGrouped, "attn_v"), "5555444444444444");
  EXPECT_EQ(by_layer("q4_k_s", kGrouped, "ffn_down"), "5544444444444444");
  EXPECT_EQ(by_layer("q3_k_m", kGrouped, "attn_v"), "5544444444444444");
  EXPECT_EQ(by_layer("q3_k_m", kGrouped, "ffn_down"), "5444444444444444");
  EXPECT_EQ(by_layer("q3_k_m", kGrouped, "attn_output"), "4444444444444444");
  EXPECT_EQ(by_layer("q3_k_l", kGrouped, "attn_output"), "5555555555555555");
  EXPECT_EQ(by_layer("q2_k", kGrouped, "attn_v"), "4444444444444444");
  EXPECT_EQ(by_layer("q2_k", kPlain, "attn_v"), "3333333333333333");
  EXPECT_EQ(by_layer("q2_k", kGrouped, "ffn_down"), "3333333333333333");
  EXPECT_EQ(by_layer("q2_k", kGrouped, "ffn_up"), "2222222222222222");
  EXPECT_EQ(by_layer("q6_k", kGrouped, "attn_v"), "6666666666666666");
}

TEST(GgufFileType, SeventyBillions) {
  const MixedModel large{"llama", 80, 64, 8, false};
  EXPECT_EQ(type_of("q4_k_s", large, "blk.40.attn_v.weight", 8192), "Q5_K");
  EXPECT_EQ(type_of("q3_k_s", large, "blk.40.attn_v.weight", 8192), "Q5_K");
  EXPECT_EQ(type_of("q3_k_s", large, "blk.40.attn_k.weight", 8192), "Q3_K");
  const MixedModel plain{"llama", 80, 64, 64, false};
  EXPECT_EQ(type_of("q4_k_s", plain, "blk.40.attn_v.weight", 8192), "Q4_K");
}

TEST(GgufFileType, HeadsAndTables) {
  MixedModel tied = kGrouped;
  tied.tied = true;
  EXPECT_EQ(type_of("q4_k_m", kGrouped, "output.weight", 512), "Q6_K");
  EXPECT_EQ(type_of("q4_k_m", kGrouped, "token_embd.weight", 512), "Q4_K");
  EXPECT_EQ(type_of("q4_k_m", tied, "token_embd.weight", 512), "Q6_K");
  EXPECT_EQ(type_of("q4_0", tied, "token_embd.weight", 512), "Q6_K");
  EXPECT_EQ(type_of("q4_0", tied, "token_embd.weight", 288), "Q8_0");
  EXPECT_EQ(type_of("q8_0", tied, "token_embd.weight", 512), "Q8_0");
  EXPECT_EQ(type_of("bf16", tied, "token_embd.weight", 7), "BF16");
}

TEST(GgufFileType, RowsThatAreNoWholeBlocks) {
  const auto up = [](const char* file, std::int64_t columns) {
    return type_of(file, kGrouped, "blk.5.ffn_up.weight", columns);
  };
  EXPECT_EQ(up("q2_k", 288), "Q4_0");
  EXPECT_EQ(up("q3_k_m", 288), "Q4_0");
  EXPECT_EQ(up("q4_k_m", 288), "Q5_0");
  EXPECT_EQ(up("q5_k_m", 288), "Q5_1");
  EXPECT_EQ(up("q6_k", 288), "Q8_0");
  EXPECT_EQ(up("q8_0", 288), "Q8_0");
  EXPECT_EQ(up("q8_0", 20), "F16");
  EXPECT_EQ(up("q4_k_m", 20), "F16");
  const std::vector<std::int64_t> vector = {20};
  EXPECT_EQ(
      name_of(type_in_file(gguf_file_type("f16", ""), kGrouped, "output_norm.weight", vector).type),
      "F32");
}

TEST(GgufFileType, Words) {
  EXPECT_EQ(gguf_file_type("Q4_K_M", "--type").number, 15u);
  EXPECT_EQ(gguf_file_type("q4_k", "--type").number, 15u);
  try {
    gguf_file_type("q9", "--type");
    FAIL() << "accepted q9";
  } catch (const ConfigError& error) {
    EXPECT_EQ(error.flag(), "--type");
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("'q9'"), testing::HasSubstr("q3_k_l, q4_k_s")));
  }
}

}  // namespace
}  // namespace ebb::files
