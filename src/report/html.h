// Text as HTML. Whatever comes from a run's folder passes through here: it can show anything and do
// nothing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace ebb::report {

// For text between tags and for attributes in double quotes: what HTML would take for its own is
// escaped, and bytes that are not UTF-8 and control characters become U+FFFD.
std::string escaped(std::string_view text);

// JSON for a <script type="application/json">: ASCII without '<', '>' and '&', so nothing in it can
// end the element.
std::string json_for_script(const Json& json);

// A table in a box that scrolls by itself where it is wider than the screen.
struct Table {
  std::string caption;
  std::vector<std::string> columns;  // the first one is that of the rows' names
  std::vector<std::vector<std::string>> rows;
  bool numbers = true;             // cells behind the first are aligned to the right
  bool marks_differences = false;  // rows whose cells are not all alike are marked
};
std::string to_html(const Table& table);

}  // namespace ebb::report
