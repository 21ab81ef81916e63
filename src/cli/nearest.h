// What somebody may have meant by a word that is not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebb::cli {

// The known word that is nearest to `word`: one that begins with it, one whose parts begin with its
// letters ("lr" for "learning-rate"), or one that a few slips of the keyboard make of it. Empty
// where none is near. Of equals the first.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// "; did you mean --steps?" with `before` in front of the word, or nothing where none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         std::string_view before = "");

}  // namespace ebb::cli
