#include "files/gguf/types.h"

#include <array>
#include <cstring>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include "base/dtype.h"
#include "base/half.h"
#include "ebb/error.h"
#include "kernels/cpu/search_loops.h"
#include "kernels/reference/quantize_blocks.h"

namespace ebb::files {
namespace {

struct ReadType {
  std::uint32_t number;
  GgufType type;
};

constexpr std::array kReadTypes = {
    ReadType{0, GgufType::f32},   ReadType{1, GgufType::f16},   ReadType{30, GgufType::bf16},
    ReadType{8, GgufType::q8_0},  ReadType{2, GgufType::q4_0},  ReadType{3, GgufType::q4_1},
    ReadType{6, GgufType::q5_0},  ReadType{7, GgufType::q5_1},  ReadType{10, GgufType::q2_k},
    ReadType{11, GgufType::q3_k}, ReadType{12, GgufType::q4_k}, ReadType{13, GgufType::q5_k},
    ReadType{14, GgufType::q6_k},
};

struct OtherType {
  std::uint32_t number;
  std::string_view name;
};

constexpr std::array kOthers = {
    OtherType{4, "Q4_2"},     OtherType{5, "Q4_3"},     OtherType{9, "Q8_1"},
    OtherType{15, "Q8_K"},    OtherType{16, "IQ2_XXS"}, OtherType{17, "IQ2_XS"},
    OtherType{18, "IQ3_XXS"}, OtherType{19, "IQ1_S"},   OtherType{20, "IQ4_NL"},
    OtherType{21, "IQ3_S"},   OtherType{22, "IQ2_S"},   OtherType{23, "IQ4_XS"},
    OtherType{24, "I8"},      OtherType{25, "I16"},     OtherType{26, "I32"},
    OtherType{27, "I64"},     OtherType{28, "F64"},     OtherType{29, "IQ1_M"},
    OtherType{34, "TQ1_0"},   OtherType{35, "TQ2_0"},   OtherType{39, "MXFP4"},
};

}  // namespace

std::optional<GgufType> try_gguf_type(std::uint32_t number) {
  for (const ReadType& known : kReadTypes) {
    if (known.number == number) return known.type;
  }
  return std::nullopt;
}

std::string gguf_type_name(std::uint32_t number) {
  if (const auto type = try_gguf_type(number)) return std::string(name_of(*type));
  for (const OtherType& other : kOthers) {
    if (other.number == number) return std::string(other.name);
  }
  return fmt::format("type {}", number);
}

std::string gguf_type_names() {
  std::string names;
  for (const ReadType& known : kReadTypes)
    (names += names.empty() ? "" : " ") += name_of(known.type);
  return names;
}

std::uint32_t number_of(GgufType type) {
  for (const ReadType& known : kReadTypes) {
    if (known.type == type) return known.number;
  }
  throw FormatError(fmt::format("GGUF files hold no {}", name_of(type)));
}

void narrow(GgufType type, std::span<const float> from, std::span<std::byte> to) {
  if (in_blocks(type)) return kernels::quantize_blocks(type, from, to, kernels::cpu_search_loops());
  if (type == GgufType::f32) {
    std::memcpy(to.data(), from.data(), from.size_bytes());
    return;
  }
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::uint16_t bits =
        type == GgufType::bf16 ? to_bf16(from[i]).bits : float_to_half(from[i]);
    std::memcpy(to.data() + 2 * i, &bits, sizeof bits);
  }
}

float largest_in(GgufType type) {
  if (in_blocks(type)) return kernels::kLargestInBlocks;
  switch (type) {
    case GgufType::f16: return kLargestHalf;
    case GgufType::bf16: return to_float(bf16{0x7f7f});
    default: return std::numeric_limits<float>::max();
  }
}

}  // namespace ebb::files
