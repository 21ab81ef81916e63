#include "ebb/types.h"

#include <array>
#include <charconv>
#include <vector>

#include <fmt/format.h>

#include "ebb/error.h"
#include "ebb/trainer.h"

namespace ebb {
namespace {

// The one table of words, which the command line, error messages and summaries share. Their order
// is that of error messages. An enum without a specialization has no word: to_word() says "?".
template <class Enum>
constexpr auto kWords = std::array<Word<Enum>, 0>{};

template <>
constexpr auto kWords<DeviceKind> = std::to_array<Word<DeviceKind>>({{DeviceKind::cpu, "cpu"},
                                                                     {DeviceKind::cuda, "cuda"},
                                                                     {DeviceKind::automatic, "auto",
                                                                      "a GPU where there is one"}});
template <>
constexpr auto kWords<FloatType> = std::to_array<Word<FloatType>>({{FloatType::automatic, "auto"},
                                                                   {FloatType::bf16, "bf16"},
                                                                   {FloatType::fp32, "fp32"}});
template <>
constexpr auto kWords<OptimizerRule> =
    std::to_array<Word<OptimizerRule>>({{OptimizerRule::adamw, "adamw"},
                                        {OptimizerRule::adam, "adam"},
                                        {OptimizerRule::lion, "lion"},
                                        {OptimizerRule::sgd, "sgd"},
                                        {OptimizerRule::adagrad, "adagrad"}});
template <>
constexpr auto kWords<StateFormat> = std::to_array<Word<StateFormat>>(
    {{StateFormat::exact, "exact"}, {StateFormat::bf16, "bf16"}, {StateFormat::int8, "int8"}});
template <>
constexpr auto kWords<LearningRateSchedule> =
    std::to_array<Word<LearningRateSchedule>>({{LearningRateSchedule::constant, "constant"},
                                               {LearningRateSchedule::linear, "linear"},
                                               {LearningRateSchedule::cosine, "cosine"},
                                               {LearningRateSchedule::wsd, "wsd"}});
template <>
constexpr auto kWords<StatePlacement> =
    std::to_array<Word<StatePlacement>>({{StatePlacement::resident, "resident"},
                                         {StatePlacement::stream, "stream"},
                                         {StatePlacement::host, "host"},
                                         {StatePlacement::automatic, "auto"}});
template <>
constexpr auto kWords<CachePlacement> = std::to_array<Word<CachePlacement>>(
    {{CachePlacement::device, "device"},
     {CachePlacement::host, "host"},
     {CachePlacement::mixed, "mixed", "where each block's attention is computed for tokens"},
     {CachePlacement::automatic, "auto"}});
template <>
constexpr auto kWords<AttentionWeights> =
    std::to_array<Word<AttentionWeights>>({{AttentionWeights::resident, "resident"},
                                           {AttentionWeights::stream, "stream"},
                                           {AttentionWeights::automatic, "auto"}});
template <>
constexpr auto kWords<VocabularyUse> =
    std::to_array<Word<VocabularyUse>>({{VocabularyUse::whole, "whole"},
                                        {VocabularyUse::cut, "cut"},
                                        {VocabularyUse::automatic, "auto"}});
template <>
constexpr auto kWords<RowPacking> = std::to_array<Word<RowPacking>>(
    {{RowPacking::stream, "stream", "tokens run on over the borders of rows"},
     {RowPacking::fit, "fit", "as many whole examples as fit into a row"},
     {RowPacking::none, "none", "one example a row"},
     {RowPacking::automatic, "auto"}});
template <>
constexpr auto kWords<LossOn> =
    std::to_array<Word<LossOn>>({{LossOn::completion, "completion", "prompts carry no loss"},
                                 {LossOn::all, "all", "every token does"}});
template <>
constexpr auto kWords<OnBadData> =
    std::to_array<Word<OnBadData>>({{OnBadData::stop, "stop", "what cannot be used ends the run"},
                                    {OnBadData::skip, "skip", "it is passed over and counted"}});
template <>
constexpr auto kWords<BenchTable> = std::to_array<Word<BenchTable>>({{BenchTable::states, "states"},
                                                                     {BenchTable::tiers, "tiers"}});

// "resident, stream, host or auto"
std::string list(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return text;
}

[[noreturn]] void refuse(std::string_view word, std::string_view flag,
                         const std::vector<std::string>& words) {
  throw ConfigError(fmt::format("{} '{}': expected {}", flag, word, list(words)));
}

}  // namespace

template <class Enum>
std::span<const Word<Enum>> words_of() {
  return kWords<Enum>;
}

template <class Enum>
std::string_view to_word(Enum value) {
  for (const Word<Enum>& known : kWords<Enum>) {
    if (known.value == value) return known.word;
  }
  return "?";
}

template <class Enum>
Enum parse_word(std::string_view word, std::string_view flag) {
  std::vector<std::string> words;
  for (const Word<Enum>& known : kWords<Enum>) {
    if (known.word == word) return known.value;
    words.push_back(known.meaning.empty() ? std::string(known.word)
                                          : fmt::format("{} ({})", known.word, known.meaning));
  }
  refuse(word, flag, words);
}

// Templates are defined here alone, so that the table is not part of the public header; an enum
// that is missing below fails to link.
#define EBB_WORDS(Enum)                                  \
  template std::span<const Word<Enum>> words_of<Enum>(); \
  template std::string_view to_word<Enum>(Enum);         \
  template Enum parse_word<Enum>(std::string_view, std::string_view)
EBB_WORDS(DeviceKind);
EBB_WORDS(FloatType);
EBB_WORDS(OptimizerRule);
EBB_WORDS(StateFormat);
EBB_WORDS(LearningRateSchedule);
EBB_WORDS(StatePlacement);
EBB_WORDS(CachePlacement);
EBB_WORDS(AttentionWeights);
EBB_WORDS(VocabularyUse);
EBB_WORDS(RowPacking);
EBB_WORDS(LossOn);
EBB_WORDS(OnBadData);
EBB_WORDS(BenchTable);
#undef EBB_WORDS

SaveEvery parse_save_every(const std::string& text) {
  using Kind = SaveEvery::Kind;
  if (text == "auto") return {Kind::automatic};
  if (text == "end") return {Kind::end};
  std::int64_t steps = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), steps);
  if (code == std::errc{} && rest == text.data() + text.size() && steps >= 0) {
    return steps == 0 ? SaveEvery{Kind::never} : SaveEvery{Kind::steps, static_cast<double>(steps)};
  }
  try {
    const double seconds = parse_seconds(text, "--save-every");
    if (seconds > 0) return {Kind::seconds, seconds};
  } catch (const ConfigError&) {
    // Told with all that can be said here.
  }
  throw ConfigError(fmt::format(
      "--save-every {}: expected steps (500), a time (10min, 2h), auto, end (at the end only) or "
      "0 (nothing is saved)",
      text));
}

// The last colon may be a part of the path: what follows it must be bytes.
DiskFolder parse_disk_folder(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (text.empty() || colon == 0) throw ConfigError("--disk: expected PATH or PATH:BYTES");
  if (colon == std::string::npos || text.find('/', colon) != std::string::npos) return {text};
  return {text.substr(0, colon), parse_bytes(text.substr(colon + 1), "--disk")};
}

Blocks parse_blocks(std::string_view word, std::string_view flag, const BlockWords& words) {
  if (word == "auto") return {};
  if (word == words.none) return Blocks::none();
  if (word == words.all) return Blocks::all();
  // A sign or digits with something behind them are no number of blocks.
  std::int64_t blocks = -1;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), blocks);
  if (error == std::errc{} && end == word.data() + word.size() && blocks >= 0) return blocks;
  std::vector<std::string> known{std::string(words.none), std::string(words.all)};
  if (!words.more.empty()) known.emplace_back(words.more);
  known.insert(known.end(), {"auto", "a number of blocks"});
  refuse(word, flag, known);
}

std::string to_word(const Blocks& blocks, const BlockWords& words) {
  if (blocks.automatic()) return "auto";
  if (blocks == Blocks::none()) return std::string(words.none);
  if (blocks == Blocks::all()) return std::string(words.all);
  return std::to_string(*blocks.count());
}

}  // namespace ebb
