// Which item comes when.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "text/data/data_set.h"
#include "text/data/position.h"

namespace ebb::text {

struct Visit {
  DataPosition at;        // where in the order; its token is 0
  std::int64_t item = 0;  // of the data set
};

// The next visit at each call; nothing at the end.
using Order = std::function<std::optional<Visit>()>;

// The share of the items that is kept from training to validate on: drawn from what an item is, not
// from the seed, so that no run ever trains on it.
bool is_held_out(const DataSet& data, std::int64_t item, double share);

// Every item that is not held out once in each epoch, in an order drawn from seed and epoch,
// without end. Throws ConfigError where all items are held out, FormatError for a start that is not
// in the data.
Order shuffled_order(const DataSet& data, std::uint64_t seed, double held_out_share,
                     DataPosition start);

// The items in the order of the files, each once: all, or with a share those held out.
Order file_order(const DataSet& data, std::optional<double> held_out_share = std::nullopt);

}  // namespace ebb::text
