#include "cli/nearest.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace ebb::cli {
namespace {

// Letters that are missing, too many or wrong, and neighbours that are swapped, count one each.
std::size_t slips_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_before(b.size() + 1), before(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(two_before, before);
    std::swap(before, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t wrong = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({before[j] + 1, row[j - 1] + 1, before[j - 1] + wrong});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string initials_of(std::string_view word) {
  std::string initials;
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i == 0 || word[i - 1] == '-') initials += word[i];
  }
  return initials;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  // A word of three letters that differs in two is another word.
  const std::size_t most = (word.size() + 1) / 3;
  std::size_t least = most + 1;
  std::string best;
  for (const std::string& candidate : known) {
    const bool begins = word.size() > 1 && candidate.starts_with(word);
    const bool initials = word.size() > 1 && initials_of(candidate) == word;
    const std::size_t slips = begins || initials ? 0 : slips_between(word, candidate);
    if (slips >= least) continue;
    least = slips;
    best = candidate;
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         std::string_view before) {
  const std::string near = nearest(word, known);
  return near.empty() ? std::string() : fmt::format("; did you mean {}{}?", before, near);
}

}  // namespace ebb::cli
