// Ends a text before the first of some strings, while the text comes in pieces of any size.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebb::text {

// The string that is complete first ends the text, and of those that are complete with the same
// byte the longest: where the borders of the pieces are changes nothing. For one thread.
class StopStrings {
 public:
  // None of them may be empty.
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  // All that is certainly before a stop string: what may be the beginning of one is held back.
  // Nothing once the text has ended.
  std::string feed(std::string_view piece);

  // No more pieces come: what was held back belongs to the text. Nothing where a stop string ended
  // it.
  std::string finish();

  bool ended() const { return ended_; }

 private:
  std::vector<std::string> strings_;
  std::string held_;  // always the beginning of a stop string
  bool ended_ = false;
};

}  // namespace ebb::text
