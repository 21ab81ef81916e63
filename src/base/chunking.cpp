#include "base/chunking.h"

#include <algorithm>

namespace ebb {

std::string_view name_of(Site site) {
  switch (site) {
    case Site::resident: return "resident";
    case Site::stream: return "stream";
    case Site::host: return "host";
  }
  return "?";
}

// There may be millions of cuts, so they are not listed.
std::int64_t next_cut(std::span<const TensorRange> tensors, std::int64_t length, std::int64_t grain,
                      std::int64_t first, std::int64_t size) {
  const auto behind = std::upper_bound(
      tensors.begin(), tensors.end(), first,
      [](std::int64_t element, const TensorRange& tensor) { return element < tensor.first; });
  std::int64_t cut = 0;
  for (auto tensor = behind == tensors.begin() ? behind : behind - 1; tensor != tensors.end();
       ++tensor) {
    const std::int64_t end = tensor + 1 == tensors.end() ? length : (tensor + 1)->first;
    const std::int64_t parameters_end = tensor->first + tensor->count;
    if (cut == 0) cut = first + grain < parameters_end ? first + grain : end;
    if (end > first + size) {
      const std::int64_t within = std::min(first + size, parameters_end - 1) - tensor->first;
      return std::max(cut, tensor->first + within / grain * grain);
    }
    cut = end;
  }
  return cut;
}

std::int64_t default_chunk_parameters(std::int64_t parameters) {
  // 40 MiB of exact state is past the link's latency by far; a small model still gets 64 chunks.
  constexpr std::int64_t smallest = 16 << 10;
  constexpr std::int64_t largest = 4 << 20;
  return std::clamp(parameters / 64, smallest, largest);
}

}  // namespace ebb
