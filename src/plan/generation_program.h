// The programs of generation: the forward of a slice of one sequence's prompt, and of a token of
// each of several sequences. Weights, caches and the processor of each block are where the choices
// say; the residual stream crosses between device and host memory where neighbours have different
// processors.
//
// A run begins and ends on the CPU's lane: take_tokens writes the ids that it computes with, and
// choose_tokens reads the logits, from which the next ids follow. So runs can be queued behind each
// other: nobody has to look at a run's logits before the next one is issued, and what does not
// depend on its tokens (weights on their way) goes on between them.
#pragma once

#include "plan/generation_choices.h"
#include "plan/program.h"

namespace ebb::plan {

// The arguments of a run, in bytes. Where it takes one sequence further, by a slice of a prompt:
inline constexpr int kTokenBytes = 0;   // of the token ids that it takes
inline constexpr int kStreamBytes = 1;  // of the residual stream
inline constexpr int kLogitBytes = 2;   // of the logits that it makes
inline constexpr int kCacheBytes = 3;   // of a block's cache: rows of the sequence's tokens before
inline constexpr int kAddedBytes = 4;   // likewise, of those that it takes
inline constexpr int kCacheStart = 5;   // where the sequence's rows begin in a block's cache
inline constexpr int kCacheEnd = 6;     // and where they end, before this run
// Of a run for tokens, which may take all sequences further, there are in the place of the last
// four two of each sequence: cached_bytes(s) and added_bytes(s).
constexpr int cached_bytes(std::int64_t sequence) { return 3 + 2 * static_cast<int>(sequence); }
constexpr int added_bytes(std::int64_t sequence) { return cached_bytes(sequence) + 1; }

enum class Phase : std::uint8_t { prompt, token };

// A prompt's run takes one sequence further by up to as many tokens as the workload has; a token's
// any of the sequences, each by one. With a `first` program its persistent objects come first here,
// too: both can share arenas.
Program build_generation(const Workload&, const GenerationChoices&, Phase,
                         const Program* first = nullptr);

}  // namespace ebb::plan
