// A conversation at a terminal or in a pipe: its messages, its commands, and what of it still fits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/stop_on_interrupt.h"
#include "ebb/generator.h"

namespace ebb::cli {

// Answers go to stdout, everything else to stderr. Refers to what it is made with.
class Conversation {
 public:
  Conversation(Generator& generator, const SamplingOptions& sampling, const std::string& system,
               StopOnInterrupt& interrupts)
      : generator_(generator), sampling_(sampling), system_(system), interrupts_(interrupts) {}

  // A message, or a command, which begins with one slash; two stand for a message that begins with
  // one. What is wrong with it is told. False where the conversation shall end.
  bool take(const std::string& line);

 private:
  struct Command;
  static const std::vector<Command>& commands();

  bool obey(std::string_view line);
  void help();
  void history();
  void reset();
  void set_system(const std::string& text);
  void save(const std::string& file);
  void load(const std::string& file);
  void undo();
  void regenerate();
  void set(const std::string& words);

  void say(const std::string& text);
  void answer();
  std::int64_t make_fit();
  std::vector<ChatMessage> seen() const;
  std::size_t next_turn(std::size_t from) const;

  Generator& generator_;
  SamplingOptions sampling_;
  std::string system_;  // empty: none
  StopOnInterrupt& interrupts_;
  std::vector<ChatMessage> messages_;  // without the system's
  std::size_t first_ = 0;              // the model sees messages from here on
  std::uint64_t attempts_ = 0;         // answers to the last message before this one
};

}  // namespace ebb::cli
