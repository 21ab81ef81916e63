// The program of generation: the forward of a few new tokens with everything on the device.
#pragma once

#include <vector>

#include "plan/program.h"

namespace ebb::plan {

struct GenerationWork {
  std::vector<Block> blocks;  // what they are, their names, parameters and weights
  Bytes tokens = 0;           // ids of the tokens of one run
  Bytes input = 0;            // a block's input
  Bytes cache = 0;            // keys and values of one block
  Bytes work = 0;             // the most any block needs
  Bytes head_work = 0;
  Bytes logits = 0;
  Bytes scratch = 0;
  Bytes tables = 0;
};

// The argument of a run: how many bytes of token ids it takes.
inline constexpr int kTokenBytes = 0;

// One run of it takes up to the planned number of tokens further.
Program build_generation(const GenerationWork&);

}  // namespace ebb::plan
