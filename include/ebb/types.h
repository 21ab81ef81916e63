// What options are made of: choices by name, and the words that people write for them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ebb/units.h"

namespace ebb {

enum class DeviceKind : std::uint8_t { automatic, cpu, cuda };  // automatic: a GPU if there is one
// automatic: what the place says, such as as stored, or as the weights.
enum class FloatType : std::uint8_t { automatic, bf16, fp32 };
enum class OptimizerRule : std::uint8_t { adamw, adam, lion, sgd, adagrad };
enum class StateFormat : std::uint8_t { exact, bf16, int8 };  // of adamw's moments; exact: fp32
enum class LearningRateSchedule : std::uint8_t { constant, linear, cosine, wsd };

// Where optimizer states live and what updates them: on the device; elsewhere, and they stream
// through the device; elsewhere, and the CPU updates them. automatic: as the plan says.
enum class StatePlacement : std::uint8_t { automatic, resident, stream, host };
// Of generation: where the key-value cache is. mixed: of each block where its attention is computed
// for tokens. automatic: as the plan says.
enum class CachePlacement : std::uint8_t { automatic, device, host, mixed };
// Of generation: whether the attention's weights stay on the device where a block's leave it.
enum class AttentionWeights : std::uint8_t { automatic, resident, stream };
// Whether embedding and head use the whole vocabulary at once, or a piece at a time.
enum class VocabularyUse : std::uint8_t { automatic, whole, cut };

// How items become rows: tokens run on over the borders of rows; as many whole items as fit into a
// row; one item a row. automatic: none for prompts and messages, else stream.
enum class RowPacking : std::uint8_t { automatic, stream, fit, none };
enum class LossOn : std::uint8_t { completion, all };  // completion: prompts carry no loss
enum class OnBadData : std::uint8_t { stop, skip };    // skip: it is passed over and counted

// Rows of a bench: states leave a device that holds the rest, or limits are such that weights and
// gradients must leave it, too.
enum class BenchTable : std::uint8_t { states, tiers };

// How many of a model's blocks something is done for.
class Blocks {
 public:
  constexpr Blocks() = default;  // automatic: as the plan says
  // A number, so that `options.recompute = 4` reads as it should. More than there are is all.
  constexpr Blocks(std::int64_t count) : count_(count) {}
  static constexpr Blocks none() { return 0; }
  static constexpr Blocks all() { return std::numeric_limits<std::int64_t>::max(); }

  constexpr bool automatic() const { return !count_; }
  // As given; nothing where it is automatic.
  constexpr std::optional<std::int64_t> count() const { return count_; }
  // The number out of so many that there are; nothing where it is automatic.
  constexpr std::optional<std::int64_t> of(std::int64_t blocks) const {
    return count_ ? std::optional(std::min(*count_, blocks)) : std::nullopt;
  }

  friend constexpr bool operator==(const Blocks&, const Blocks&) = default;

 private:
  std::optional<std::int64_t> count_;
};

// A folder on a drive, and how much of it may be used.
struct DiskFolder {
  std::string path;
  std::optional<Bytes> bytes{};  // none: what suits the use
};
// "PATH" or "PATH:BYTES", such as /scratch:500GiB. Throws ConfigError that names --disk.
DiskFolder parse_disk_folder(const std::string& text);

// The words of every enum above stand in one table. These are for all of them.
template <class Enum>
struct Word {
  Enum value;
  std::string_view word;          // "stream"
  std::string_view meaning = {};  // for people, where the word alone does not say it
};
template <class Enum>
std::span<const Word<Enum>> words_of();
template <class Enum>
std::string_view to_word(Enum value);
// Throws ConfigError that names the flag ("--states") and lists the words.
template <class Enum>
Enum parse_word(std::string_view word, std::string_view flag);

// What people write for no block and for every block of a choice. `more` is another word of the
// same flag, which the caller knows.
struct BlockWords {
  std::string_view none;
  std::string_view all;
  std::string_view more = {};
};
inline constexpr BlockWords kWeightWords{"resident", "stream"};
inline constexpr BlockWords kCpuBlockWords{"none", "all"};
inline constexpr BlockWords kGradientSumWords{"device", "host"};
inline constexpr BlockWords kRecomputeWords{"none", "block"};
inline constexpr BlockWords kSaveCheapWords{"none", "all"};
inline constexpr BlockWords kActivationWords{"device", "host", "disk"};

// "auto", one of the words, or a number. Throws ConfigError that names the flag and lists them.
Blocks parse_blocks(std::string_view word, std::string_view flag, const BlockWords& words);
std::string to_word(const Blocks& blocks, const BlockWords& words);

}  // namespace ebb
