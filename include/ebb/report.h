// Runs and plans as a page to look at.
#pragma once

#include <string>
#include <vector>

#include "ebb/plan.h"

namespace ebb {

// Writes `out`: one HTML page that needs nothing else, of a run's folder or of several that are
// compared. A run may still be going on. What of a folder cannot be read is said on the page.
// Throws ConfigError where a folder is no run's, IoError where it cannot be read or `out` cannot be
// written.
void write_report(const std::vector<std::string>& runs, const std::string& out);

// The same of a plan, before anything runs. `title` is for people.
void write_plan_report(const Plan& plan, const std::string& title, const std::string& out);

}  // namespace ebb
