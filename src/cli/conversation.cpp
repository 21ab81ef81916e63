#include "cli/conversation.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "cli/nearest.h"
#include "cli/output.h"
#include "ebb/error.h"

namespace ebb::cli {
namespace {

constexpr std::int64_t kUsualTokens = 200;

void tell(const std::string& text) { fmt::print(stderr, "{}\n", text); }

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

template <class Number>
Number number_in(std::string_view text, std::string_view name) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw ConfigError(fmt::format("/set {} {}: expected a number", name, text));
  }
  return number;
}

struct Setting {
  std::string_view name;
  std::function<void(SamplingOptions&, std::string_view)> set;
};

// Named as the flags.
const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"temperature",
       [](auto& o, auto text) { o.temperature = number_in<double>(text, "temperature"); }},
      {"top-k", [](auto& o, auto text) { o.top_k = number_in<std::int64_t>(text, "top-k"); }},
      {"top-p", [](auto& o, auto text) { o.top_p = number_in<double>(text, "top-p"); }},
      {"min-p", [](auto& o, auto text) { o.min_p = number_in<double>(text, "min-p"); }},
      {"repetition-penalty",
       [](auto& o, auto text) {
         o.repetition_penalty = number_in<double>(text, "repetition-penalty");
       }},
      {"repetition-window",
       [](auto& o, auto text) {
         o.repetition_window = number_in<std::int64_t>(text, "repetition-window");
       }},
      {"max-tokens",
       [](auto& o, auto text) { o.max_tokens = number_in<std::int64_t>(text, "max-tokens"); }},
      {"seed", [](auto& o, auto text) { o.seed = number_in<std::uint64_t>(text, "seed"); }}};
  return all;
}

// What ends a sentence where nothing was meant.
std::string ended(const std::string& meant) { return meant.empty() ? "." : meant; }

std::string names_of_settings() {
  std::string names;
  for (const Setting& setting : settings()) {
    names += (names.empty() ? "" : ", ") + std::string(setting.name);
  }
  return names;
}

}  // namespace

struct Conversation::Command {
  std::string_view name;
  std::string_view argument;  // what follows it; empty: nothing
  std::string_view help;
  std::function<void(Conversation&, const std::string&)> run;
};

const std::vector<Conversation::Command>& Conversation::commands() {
  using Self = Conversation;
  static const std::vector<Command> all = {
      {"/help", "", "these lines", [](Self& self, auto&) { self.help(); }},
      {"/history", "", "the messages so far, and which of them the model does not see any more",
       [](Self& self, auto&) { self.history(); }},
      {"/reset", "", "forget all messages, but not the system's",
       [](Self& self, auto&) { self.reset(); }},
      {"/system", "TEXT", "instructions before the conversation; without a text: none",
       [](Self& self, auto& text) { self.set_system(text); }},
      {"/save", "FILE", "write the conversation, a line of JSONL",
       [](Self& self, auto& file) { self.save(file); }},
      {"/load", "FILE", "go on with the conversation of a file",
       [](Self& self, auto& file) { self.load(file); }},
      {"/undo", "", "take back the last message and its answer",
       [](Self& self, auto&) { self.undo(); }},
      {"/regenerate", "", "another answer to the last message",
       [](Self& self, auto&) { self.regenerate(); }},
      {"/set", "NAME VALUE", "change how answers are chosen; alone: say how they are",
       [](Self& self, auto& words) { self.set(words); }},
      {"/quit", "", "end, as Ctrl-D does", {}}};
  return all;
}

bool Conversation::take(const std::string& line) {
  try {
    if (line.starts_with('/') && !line.starts_with("//")) return obey(line);
    const std::string text = line.starts_with("//") ? line.substr(1) : line;
    if (!trimmed(text).empty()) say(text);
  } catch (const ConfigError& error) {
    tell(error.what());
  } catch (const FormatError& error) {
    tell(error.what());
  } catch (const IoError& error) {
    // The output's end is the conversation's: nobody hears it any more.
    if (error.path().empty()) throw;
    tell(error.what());
  }
  return true;
}

bool Conversation::obey(std::string_view line) {
  const std::size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, end);
  for (const Command& command : commands()) {
    if (command.name != name) continue;
    const std::string argument(trimmed(line.substr(end)));
    if (command.argument.empty() && !argument.empty()) {
      throw ConfigError(fmt::format("{} takes nothing behind it, found '{}'", name, argument));
    }
    if (!command.run) return false;
    command.run(*this, argument);
    return true;
  }
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  throw ConfigError(
      fmt::format("{} is not a command{} /help lists them, and a message that begins with a slash "
                  "is written with two",
                  name, ended(did_you_mean(name, names))));
}

void Conversation::help() {
  for (const Command& command : commands()) {
    tell(fmt::format("{:<22}{}", fmt::format("{} {}", command.name, command.argument),
                     command.help));
  }
  tell(
      "A line that ends with a backslash goes on with the next one. Ctrl-C stops an answer, Ctrl-D "
      "ends.\nNames that /set knows: " +
      names_of_settings());
}

void Conversation::history() {
  if (!system_.empty()) tell("system: " + system_);
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    tell(fmt::format("{}{}: {}", i < first_ ? "(not seen) " : "", messages_[i].role,
                     messages_[i].content));
  }
  if (messages_.empty()) tell("There is no message");
}

void Conversation::reset() {
  messages_.clear();
  first_ = 0;
  tell("The conversation is empty");
}

void Conversation::set_system(const std::string& text) {
  system_ = text;
  tell(text.empty() ? "No instructions" : "Instructions from the next answer on");
}

void Conversation::save(const std::string& file) {
  if (file.empty()) throw ConfigError("/save: give a file");
  std::vector<ChatMessage> all = messages_;
  if (!system_.empty()) all.insert(all.begin(), {"system", system_});
  save_messages(file, all);
  tell(fmt::format("{} messages in {}", all.size(), file));
}

void Conversation::load(const std::string& file) {
  if (file.empty()) throw ConfigError("/load: give a file");
  std::vector<ChatMessage> all = load_messages(file);
  system_.clear();
  if (all.front().role == "system") {
    system_ = all.front().content;
    all.erase(all.begin());
  }
  messages_ = std::move(all);
  first_ = 0;
  const bool waits = !messages_.empty() && messages_.back().role == "user";
  tell(fmt::format("{} messages from {}{}", messages_.size(), file,
                   waits ? "; the last has no answer: /regenerate writes one" : ""));
}

void Conversation::undo() {
  if (messages_.empty()) throw ConfigError("/undo: there is no message");
  while (!messages_.empty() && messages_.back().role != "user") messages_.pop_back();
  if (!messages_.empty()) messages_.pop_back();
  first_ = 0;
  tell(fmt::format("{} messages are left", messages_.size()));
}

void Conversation::regenerate() {
  const auto asked = std::find_if(messages_.rbegin(), messages_.rend(),
                                  [](const ChatMessage& m) { return m.role == "user"; });
  if (asked == messages_.rend()) throw ConfigError("/regenerate: there is no message to answer");
  // The first answer to a message that was loaded is no other one.
  if (asked != messages_.rbegin()) ++attempts_;
  messages_.erase(asked.base(), messages_.end());
  answer();
}

void Conversation::set(const std::string& words) {
  SamplingOptions changed = sampling_;
  if (!words.empty()) {
    const std::size_t end = std::min(words.find_first_of(" \t"), words.size());
    const std::string_view name = std::string_view(words).substr(0, end);
    const auto found = std::find_if(settings().begin(), settings().end(),
                                    [&](const Setting& setting) { return setting.name == name; });
    if (found == settings().end()) {
      std::vector<std::string> names;
      for (const Setting& setting : settings()) names.emplace_back(setting.name);
      throw ConfigError(fmt::format("/set {}: no such setting{} They are {}", name,
                                    ended(did_you_mean(name, names)), names_of_settings()));
    }
    found->set(changed, trimmed(std::string_view(words).substr(end)));
  }
  tell(explain_sampling(generator_.model(), changed));
  sampling_ = changed;
}

void Conversation::say(const std::string& text) {
  messages_.push_back({"user", text});
  attempts_ = 0;
  try {
    answer();
  } catch (...) {
    // As if nothing had been said: a message without an answer would break most templates.
    if (messages_.back().role == "user") messages_.pop_back();
    throw;
  }
}

std::vector<ChatMessage> Conversation::seen() const {
  std::vector<ChatMessage> seen;
  if (!system_.empty()) seen.push_back({"system", system_});
  seen.insert(seen.end(), messages_.begin() + static_cast<std::ptrdiff_t>(first_), messages_.end());
  return seen;
}

// Where the turn behind the one at `from` begins.
std::size_t Conversation::next_turn(std::size_t from) const {
  const auto begin = messages_.begin() + static_cast<std::ptrdiff_t>(from);
  return static_cast<std::size_t>(
      std::find_if(std::min(begin + 1, messages_.end()), messages_.end(),
                   [](const ChatMessage& m) { return m.role == "user"; }) -
      messages_.begin());
}

// Leaves out of what the model sees the oldest turns that do not fit, after saying so; returns how
// many tokens an answer may have.
std::int64_t Conversation::make_fit() {
  const std::int64_t positions =
      std::min(generator_.positions(), generator_.model().max_positions());
  const auto count = [&] { return std::ssize(generator_.model().encode_chat(seen())); };
  // An answer that would be cut off after a few words helps nobody.
  const std::int64_t room = std::min(sampling_.max_tokens.value_or(kUsualTokens), positions / 4);
  const std::size_t before = first_;
  std::int64_t tokens = count();
  if (tokens + room > positions) {
    const std::int64_t all = tokens;
    // A little more than must be: what the model sees begins anew with every turn that is left out.
    while (tokens + 2 * room > positions && next_turn(first_) < messages_.size()) {
      first_ = next_turn(first_);
      tokens = count();
    }
    if (tokens >= positions) {
      first_ = before;
      throw ConfigError(
          fmt::format("The message has {} tokens with what goes before it, and there are {} "
                      "positions; say it shorter, or start with more --positions",
                      tokens, positions));
    }
    if (first_ > before) {
      tell(
          fmt::format("The conversation has {} tokens and there are {} positions: from here on the "
                      "model does not see the oldest {} messages (/save still writes them)",
                      all, positions, first_));
    }
  }
  return std::min(sampling_.max_tokens.value_or(kUsualTokens), positions - tokens);
}

void Conversation::answer() {
  SamplingOptions sampling = sampling_;
  sampling.max_tokens = make_fit();
  sampling.seed += attempts_;
  const std::stop_token stop = interrupts_.begin();
  const GenerateSummary summary = generator_.answer(
      seen(), sampling,
      [](std::string_view piece) {
        print_out(piece);
        return true;
      },
      stop);
  print_out("\n");
  messages_.push_back({"assistant", summary.text});
  if (summary.ended_by == EndedBy::caller) tell("(stopped)");
  if (summary.ended_by == EndedBy::length) {
    tell(fmt::format("(cut after {} tokens)", summary.tokens));
  }
  tell(fmt::format("[{} tokens, {:.1f} tokens/s; prompt of {}, {} of them computed before]",
                   summary.tokens, summary.tokens_per_second, summary.prompt_tokens,
                   summary.reused_tokens));
}

}  // namespace ebb::cli
