#include "text/stop_strings.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace ebb::text {

std::string StopStrings::feed(std::string_view piece) {
  std::string out;
  for (std::size_t i = 0; i < piece.size() && !ended_; ++i) {
    held_.push_back(piece[i]);
    // The longest end of held_ that begins some string. Nothing before it can be part of one, and
    // a string that is complete here is such an end itself.
    std::size_t begun = 0;
    std::size_t complete = 0;
    for (const std::string& string : strings_) {
      for (std::size_t length = std::min(string.size(), held_.size()); length > 0; --length) {
        if (!std::string_view(held_).ends_with(std::string_view(string).substr(0, length))) {
          continue;
        }
        if (length == string.size()) complete = std::max(complete, length);
        begun = std::max(begun, length);
        break;
      }
    }
    ended_ = complete > 0;
    out.append(held_, 0, held_.size() - (ended_ ? complete : begun));
    held_.erase(0, held_.size() - begun);
    if (ended_) held_.clear();
  }
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace ebb::text
