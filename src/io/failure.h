// The one place where a system error becomes the text a user reads.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "ebb/units.h"

namespace ebb::io {

struct Transfer {
  Bytes offset = 0;
  Bytes wanted = 0;
  Bytes got = 0;
};

// Throws IoError: what was attempted ("write"), on which path, how far a transfer came, the
// system's word for `code` (an errno value) and what to do about it.
[[noreturn]] void throw_failure(std::string_view attempt, const std::filesystem::path& path,
                                int code, std::optional<Transfer> transfer = std::nullopt);

}  // namespace ebb::io
