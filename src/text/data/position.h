// How far a run has come in its data.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json_fwd.h"

namespace ebb::text {

// The next token to be trained on: the whole state of the data.
struct DataPosition {
  std::int64_t epoch = 0;
  std::int64_t item = 0;   // the nth of the epoch's order
  std::int64_t token = 0;  // of the item
  bool operator==(const DataPosition&) const = default;
};

Json to_json(const DataPosition& position);

// Throws FormatError that names `where`.
DataPosition parse_position(const Json& json, std::string_view where);

}  // namespace ebb::text
