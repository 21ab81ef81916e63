// Rows of CSV: fields between separators, which in quotes may hold separators, line feeds and, as
// two of them, quotes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebb::text {

// A comma, a semicolon or a tabulator: what separates most fields of a header.
char find_separator(std::string_view header);

// The fields of a row, whose line feed has been taken off. `where` names the file and the row in
// errors. Throws FormatError for a quote that is not closed, and for text behind one that is.
std::vector<std::string> split_row(std::string_view row, char separator, std::string_view where);

}  // namespace ebb::text
