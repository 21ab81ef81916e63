#include "ebb/error.h"

#include <algorithm>

namespace ebb {
namespace {

std::string leading_flag(const std::string& text) {
  if (!text.starts_with("--")) return {};
  const auto is_of_flag = [](char c) { return (c >= 'a' && c <= 'z') || c == '-'; };
  return {text.begin(), std::find_if_not(text.begin(), text.end(), is_of_flag)};
}

}  // namespace

ConfigError::ConfigError(const std::string& text) : Error(text), flag_(leading_flag(text)) {}

}  // namespace ebb
