#include "report/html.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/json.h"
#include "base/utf8.h"

namespace ebb::report {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

void append_escaped(std::string& html, char c) {
  switch (c) {
    case '&': html += "&amp;"; return;
    case '<': html += "&lt;"; return;
    case '>': html += "&gt;"; return;
    case '"': html += "&quot;"; return;
    case '\'': html += "&#39;"; return;
    default: break;
  }
  const auto byte = static_cast<unsigned char>(c);
  const bool control = (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f;
  if (control) {
    html += kReplacement;
  } else {
    html += c;
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string html;
  html.reserve(text.size() + text.size() / 8);
  while (!text.empty()) {
    const std::size_t good = utf8::valid_bytes(text);
    for (const char c : text.substr(0, good)) append_escaped(html, c);
    text.remove_prefix(good);
    if (text.empty()) break;
    html += kReplacement;
    text.remove_prefix(1);
  }
  return html;
}

std::string json_for_script(const Json& json) {
  const std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    // Outside of strings JSON has none of them.
    if (c == '<' || c == '>' || c == '&') {
      safe += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string to_html(const Table& table) {
  std::string html = fmt::format(
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table{1}>"
      "<caption>{0}</caption>\n<thead><tr>",
      escaped(table.caption), table.numbers ? " class=\"numbers\"" : "");
  for (const std::string& column : table.columns) {
    html += fmt::format("<th scope=\"col\">{}</th>", escaped(column));
  }
  html += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : table.rows) {
    const bool differs = table.marks_differences && row.size() > 2 &&
                         std::any_of(row.begin() + 2, row.end(),
                                     [&](const std::string& cell) { return cell != row[1]; });
    html += differs ? "<tr class=\"differs\">" : "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string cell = escaped(row[i]);
      html += i == 0 ? fmt::format("<th scope=\"row\">{}{}</th>", cell,
                                   differs ? " <span title=\"not alike\">\xE2\x89\xA0</span>" : "")
                     : fmt::format("<td>{}</td>", cell);
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace ebb::report
