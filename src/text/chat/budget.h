// How much a template may do. Templates and conversations come from outside: each piece of work is
// counted, so that a loop in a loop or a string that doubles itself ends in an error, not in a
// machine that stands still.
#pragma once

#include <cstddef>
#include <string>

#include "text/chat/render_limits.h"

namespace ebb::text::jinja {

inline constexpr std::size_t kLongestFailure = 1000;  // bytes of an error, whose words are theirs
inline constexpr std::size_t kLongestTemplate = std::size_t{1} << 20;  // bytes
inline constexpr std::size_t kLongestList = 1'000'000;
inline constexpr std::size_t kItemBytes = 24;          // of a list
inline constexpr std::size_t kLongestRange = 100'000;  // what Jinja's sandbox allows
inline constexpr std::size_t kMostObjects = 10'000;    // namespaces and macros of one rendering
inline constexpr int kDeepestValue = 100;              // lists in lists
inline constexpr int kDeepestEvaluation = 1000;        // nodes in nodes, macros in macros
inline constexpr int kDeepestSyntax = 100;             // brackets, blocks
inline constexpr int kTallestExpression = 400;         // a + b + c + ...
inline constexpr std::size_t kMostNames = 1000;    // of variables: looking one up walks over them
inline constexpr std::size_t kMostArguments = 64;  // of a filter that calls others

// Of one rendering, for one thread. Throws Failure when it is spent.
class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits) {}

  void spend(std::size_t work) {
    if (work > left_) exhausted();
    left_ -= work;
  }

  // Reading or writing so many bytes. Memory is quick: 64 of them are as much as one node.
  void spend_bytes(std::size_t bytes) { spend(bytes / 64); }

  // A new string: also bounded by itself.
  void spend_text(std::size_t bytes) {
    if (bytes > limits_.piece_bytes()) text_too_long();
    spend_bytes(bytes);
  }

  // More bytes for a text that grows.
  void spend_text(const std::string& grown, std::size_t bytes) {
    if (grown.size() > limits_.piece_bytes()) text_too_long();
    spend_text(bytes);
  }

  // A new list.
  void spend_list(std::size_t count) {
    if (count > kLongestList || count > limits_.piece_bytes() / kItemBytes) list_too_long();
    spend(count);
  }

 private:
  [[noreturn]] void exhausted() const;
  [[noreturn]] void text_too_long() const;
  [[noreturn]] void list_too_long() const;

  RenderLimits limits_;
  std::size_t left_ = limits_.work;
};

}  // namespace ebb::text::jinja
