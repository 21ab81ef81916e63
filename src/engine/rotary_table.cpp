#include "engine/rotary_table.h"

#include <algorithm>
#include <vector>

namespace ebb::engine {

void fill_rotary_table(Executor& executor, plan::ObjectId object, const model::Decoder& decoder,
                       std::int64_t positions) {
  if (decoder.table_bytes(positions) == 0) return;
  constexpr std::int64_t piece = 256;
  std::vector<float> table(static_cast<std::size_t>(decoder.table_bytes(piece)) / sizeof(float));
  std::byte* to = executor.address(object, decoder.table_bytes(positions));
  for (std::int64_t first = 0; first < positions; first += piece) {
    const std::int64_t count = std::min(piece, positions - first);
    decoder.fill_table(table.data(), first, count);
    executor.copy_now(to + decoder.table_bytes(first), table.data(), decoder.table_bytes(count));
  }
}

}  // namespace ebb::engine
