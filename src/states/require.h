// The room's one way to refuse a setting.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "ebb/error.h"

namespace ebb::states {

template <class Value>
void require(bool holds, std::string_view flag, Value value, std::string_view range) {
  if (!holds) throw ConfigError(fmt::format("{} {}: expected {}", flag, value, range));
}

}  // namespace ebb::states
