#include "cli/output.h"

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <system_error>

#include <fmt/format.h>

#include "ebb/error.h"
#include "ebb/units.h"

namespace ebb::cli {
namespace {

[[noreturn]] void fail() {
  // Where a library wrote, nobody kept the reason.
  const int code = errno;
  throw IoError(
      fmt::format("cannot write the output{}. Write to a file on a disk with room, or "
                  "keep reading until the command has ended.",
                  code == 0 ? "" : ": " + std::generic_category().message(code)));
}

}  // namespace

void print_out(std::string_view text) {
  // A failed write need not set it, and what an earlier call left would be told as the reason.
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail();
  if (std::fflush(stdout) != 0) fail();
}

std::string time_left(double seconds) {
  return seconds > 0 ? fmt::format("  {} left", format_seconds(seconds)) : "";
}

void finish_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) fail();
}

}  // namespace ebb::cli
