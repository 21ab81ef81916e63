// What `ebb bench train` found, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "measure/bench/training_row.h"

namespace ebb::measure {

struct Compared {
  int pairs = 0;        // of runs that differ in placement alone
  std::string failure;  // names those that ended with other weights
};
// Fills in shares of resident speed. Runs that differ in placement alone must have ended with the
// same weights.
Compared compare_rows(std::vector<RowResult>& rows);

Json to_json(const RowResult& row);
std::string to_text(const std::vector<RowResult>& rows);
// One of them, in a line of its own.
std::string to_line(const RowResult& row);

}  // namespace ebb::measure
