// Sanitized code is slow: with EBB_TEST_SCALE=small tests that have many cases take fewer of them.
#pragma once

#include <cstdlib>
#include <string_view>

namespace ebb {

inline bool small_scale() {
  const char* scale = std::getenv("EBB_TEST_SCALE");
  return scale != nullptr && std::string_view(scale) == "small";
}

}  // namespace ebb
