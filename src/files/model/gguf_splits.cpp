#include "files/model/gguf_splits.h"

#include <array>
#include <utility>

namespace ebb::files {
namespace {

constexpr GgufSplit kGpt2{};
constexpr GgufSplit kDigits{.digits = true};
constexpr GgufSplit kLlama3{
    .pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    .whole_words = true,
    .begins = true};
constexpr GgufSplit kQwen2{.pattern =
                               R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
                           .nfc = true};
constexpr GgufSplit kTekken{
    .pattern =
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
        R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    .whole_words = true,
    .begins = true};

constexpr std::array<std::pair<std::string_view, const GgufSplit*>, 8> kSplits = {{
    {"gpt-2", &kGpt2},
    {"smollm", &kDigits},
    {"llama-bpe", &kLlama3},
    {"llama-v3", &kLlama3},
    {"llama3", &kLlama3},
    {"qwen2", &kQwen2},
    {"deepseek-r1-qwen", &kQwen2},
    {"tekken", &kTekken},
}};

}  // namespace

std::optional<std::string_view> gguf_split_name(const GgufSplit& split) {
  for (const auto& [name, known] : kSplits) {
    if (known->pattern == split.pattern && known->digits == split.digits &&
        known->nfc == split.nfc && known->whole_words == split.whole_words) {
      return name;
    }
  }
  return std::nullopt;
}

const GgufSplit* find_gguf_split(std::string_view name) {
  for (const auto& [known, split] : kSplits) {
    if (known == name) return split;
  }
  return nullptr;
}

std::string gguf_split_names() {
  std::string names;
  for (const auto& [known, split] : kSplits) (names += names.empty() ? "" : ", ") += known;
  return names;
}

SortedJson gguf_pre_tokenizer(const GgufSplit& split) {
  const bool own = !split.pattern.empty();
  SortedJson steps = SortedJson::array();
  if (own) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", split.pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  if (split.digits) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  steps.push_back({{"type", "ByteLevel"},
                   {"add_prefix_space", false},
                   {"trim_offsets", true},
                   {"use_regex", !own}});
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

}  // namespace ebb::files
