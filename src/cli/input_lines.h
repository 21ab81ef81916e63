// Lines of the standard input, for a conversation.
#pragma once

#include <string>

namespace ebb::cli {

class InputLines {
 public:
  // Prompts are shown on stderr where a person types, and nowhere else.
  InputLines();

  bool terminal() const { return terminal_; }

  enum class Got { line, interrupt, end };
  // The next line without its end. A backslash at its end is a line break: the next line goes on
  // with it. An interrupt leaves what was typed. Throws IoError.
  Got next(std::string& line);

 private:
  Got next_piece(std::string& line);
  void show(const char* prompt) const;

  bool terminal_;
  std::string buffer_;  // read and not yet taken
  bool ended_ = false;
};

}  // namespace ebb::cli
