#include "text/data/order.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "text/data/permutation.h"

namespace ebb::text {

bool is_held_out(const DataSet& data, std::int64_t item, double share) {
  return share > 0 && static_cast<double>(data.identity(item) >> 11) * 0x1p-53 < share;
}

Order shuffled_order(const DataSet& data, std::uint64_t seed, double share, DataPosition start) {
  const std::int64_t items = data.items();
  std::int64_t kept = 0;
  while (kept < items && is_held_out(data, kept, share)) ++kept;
  if (kept == items) {
    throw ConfigError(fmt::format(
        "holding out a share of {} of {} items for validation leaves none to train on; hold out "
        "less or give more data",
        share, items));
  }
  if (start.item > items) {
    throw FormatError(fmt::format(
        "the run was at item {} of an epoch, but the data has {} items; give the data of the run",
        start.item, items));
  }
  return [&data, seed, share, items, at = start]() mutable -> std::optional<Visit> {
    for (;;) {
      if (at.item == items) at = {.epoch = at.epoch + 1, .item = 0, .token = 0};
      const Permutation order(static_cast<std::uint64_t>(items), seed,
                              static_cast<std::uint64_t>(at.epoch));
      const auto item = static_cast<std::int64_t>(order(static_cast<std::uint64_t>(at.item)));
      const DataPosition here{.epoch = at.epoch, .item = at.item++, .token = 0};
      if (!is_held_out(data, item, share)) return Visit{here, item};
    }
  };
}

Order file_order(const DataSet& data, std::optional<double> share) {
  return [&data, share, next = std::int64_t{0}]() mutable -> std::optional<Visit> {
    while (next < data.items() && share && !is_held_out(data, next, *share)) ++next;
    if (next == data.items()) return std::nullopt;
    const std::int64_t item = next++;
    return Visit{{.epoch = 0, .item = item, .token = 0}, item};
  };
}

}  // namespace ebb::text
