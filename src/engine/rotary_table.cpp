#include "engine/rotary_table.h"

#include <algorithm>
#include <vector>

#include "base/to_size.h"

namespace ebb::engine {

void fill_rotary_table(exec::Executor& executor, plan::ObjectId object,
                       const model::Decoder& decoder, std::int64_t positions) {
  if (decoder.table_bytes(positions) == 0) return;
  constexpr std::int64_t piece = 256;
  std::vector<float> table(to_size(decoder.table_bytes(piece)) / sizeof(float));
  for (std::int64_t first = 0; first < positions; first += piece) {
    const std::int64_t count = std::min(piece, positions - first);
    decoder.fill_table(table.data(), first, count);
    executor.write_now(object, decoder.table_bytes(first), table.data(),
                       decoder.table_bytes(count));
  }
}

}  // namespace ebb::engine
