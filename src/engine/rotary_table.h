// The rotary table on the device, made in pieces so that staging stays small.
#pragma once

#include "exec/executor.h"
#include "model/decoder.h"

namespace ebb::engine {

void fill_rotary_table(exec::Executor& executor, plan::ObjectId object,
                       const model::Decoder& decoder, std::int64_t positions);

}  // namespace ebb::engine
