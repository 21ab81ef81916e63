// What a user can do about a system error on the disk tier.
#pragma once

#include <string_view>

namespace ebb::io {

// A sentence with a space before it; nothing where none is known. `code` is an errno value.
std::string_view disk_advice(int code);

}  // namespace ebb::io
