// The version of Ebb, which the build takes from here.
#pragma once

namespace ebb {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace ebb
