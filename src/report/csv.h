// A run's log as comma-separated values (RFC 4180, without quotes, as no cell needs them): a row
// for each line of log.jsonl, with the same names. What a line does not have is an empty cell.
#pragma once

#include <string>
#include <string_view>

#include "report/log_line.h"

namespace ebb::report {

// The row of names, with its end.
std::string csv_header();
std::string csv_row(const LogLine& line);
// Header and rows of a log.jsonl.
std::string csv_of(std::string_view log);

}  // namespace ebb::report
