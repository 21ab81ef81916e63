// A report: one HTML page that needs nothing else. Its style and script stand in it (page/), and a
// policy in it forbids everything from elsewhere. What pictures show, tables say too; these are
// made here and need no script.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "report/run_data.h"

namespace ebb::report {

// Of one run, of several that are compared, or of a plan (data_of_plan()).
void write_page(std::span<const RunData> runs, const std::string& title,
                FunctionRef<void(std::string_view)> sink);

}  // namespace ebb::report
