#include "text/data/csv.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::text {

char find_separator(std::string_view header) {
  constexpr std::string_view separators = ",;\t";
  std::array<std::size_t, separators.size()> counts{};
  bool quoted = false;
  for (const char c : header) {
    if (c == '"') quoted = !quoted;
    const std::size_t which = quoted ? std::string_view::npos : separators.find(c);
    if (which != std::string_view::npos) ++counts[which];
  }
  return separators[static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin())];
}

std::vector<std::string> split_row(std::string_view row, char separator, std::string_view where) {
  std::vector<std::string> fields;
  std::size_t at = 0;
  const auto number = [&] { return fields.size() + 1; };
  do {
    std::string field;
    if (at < row.size() && row[at] == '"') {
      for (++at;; ++at) {
        const std::size_t quote = row.find('"', at);
        if (quote == std::string_view::npos) {
          throw FormatError(fmt::format(
              "{}: a quote that opens field {} is not closed up to the end of the file; close it, "
              "and write a quote that is meant as two",
              where, number()));
        }
        field += row.substr(at, quote - at);
        at = quote + 1;
        if (at == row.size() || row[at] != '"') break;
        field += '"';
      }
      if (at < row.size() && row[at] != separator) {
        throw FormatError(
            fmt::format("{}: behind the quote that closes field {} comes {}; put all of the field "
                        "into the quotes, and write a quote that is meant as two",
                        where, number(), in_quotes(row.substr(at, 20))));
      }
    } else {
      const std::size_t end = std::min(row.find(separator, at), row.size());
      field = row.substr(at, end - at);
      at = end;
    }
    fields.push_back(std::move(field));
  } while (at++ < row.size());
  return fields;
}

}  // namespace ebb::text
