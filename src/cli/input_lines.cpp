#include "cli/input_lines.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::cli {

InputLines::InputLines() : terminal_(::isatty(STDIN_FILENO) != 0) {}

void InputLines::show(const char* prompt) const {
  if (terminal_) std::fputs(prompt, stderr);
}

InputLines::Got InputLines::next(std::string& line) {
  line.clear();
  show("> ");
  while (true) {
    std::string piece;
    const Got got = next_piece(piece);
    // A backslash with nothing behind it was the last line.
    if (got == Got::end) return line.empty() ? Got::end : Got::line;
    if (got == Got::interrupt) return got;
    const bool more = piece.ends_with('\\');
    if (more) piece.back() = '\n';
    line += piece;
    if (!more) return Got::line;
    show(". ");
  }
}

// By the system call: what the C library reads cannot be broken off by an interrupt.
InputLines::Got InputLines::next_piece(std::string& line) {
  while (true) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos || (ended_ && !buffer_.empty())) {
      line = buffer_.substr(0, end);
      buffer_.erase(0, end == std::string::npos ? end : end + 1);
      if (line.ends_with('\r')) line.pop_back();
      return Got::line;
    }
    if (ended_) return Got::end;
    std::array<char, 4096> piece;
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got > 0) {
      buffer_.append(piece.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      ended_ = true;
    } else if (errno == EINTR) {
      return Got::interrupt;
    } else {
      throw IoError(fmt::format("cannot read the standard input: {}",
                                std::generic_category().message(errno)));
    }
  }
}

}  // namespace ebb::cli
