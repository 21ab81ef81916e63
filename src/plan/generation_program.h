// The programs of generation: the forward of a few new tokens of one sequence. Weights, cache and
// the processor of each block are where the choices say; the residual stream crosses between device
// and host memory where neighbours have different processors.
#pragma once

#include "plan/generation_choices.h"
#include "plan/program.h"

namespace ebb::plan {

// The arguments of a run, in bytes.
inline constexpr int kTokenBytes = 0;   // of the token ids that it takes
inline constexpr int kCacheBytes = 1;   // of a block's cache: rows of the tokens before
inline constexpr int kAddedBytes = 2;   // likewise, of those that it takes
inline constexpr int kStreamBytes = 3;  // of the residual stream

enum class Phase : std::uint8_t { prompt, token };

// One run takes a sequence further by up to as many tokens as the workload has. With a `first`
// program its persistent objects come first here, too: both can share arenas.
Program build_generation(const Workload&, const GenerationChoices&, Phase,
                         const Program* first = nullptr);

// Behind add_waits(): the next token is known when the logits are in host memory, so runs follow
// each other and never overlap. Every lane begins a run when the one before has ended on all lanes.
void separate_runs(Program&);

}  // namespace ebb::plan
