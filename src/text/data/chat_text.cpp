#include "text/data/chat_text.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "ebb/units.h"

namespace ebb::text {
namespace {

// Up to so many messages a conversation is rendered by the definition.
constexpr std::size_t kFewMessages = 32;

bool is_answer(const Json& message) { return message.at("role") == "assistant"; }

// Renders, and counts what that takes.
class Renderer {
 public:
  Renderer(const ChatRenderer& chat, const std::string& where, std::size_t most_work)
      : chat_(chat), where_(where), most_work_(most_work) {}

  std::string operator()(const Json& messages, bool answer_next) {
    // A template looks at every message, also where it writes nothing for it.
    constexpr std::size_t look = 256;
    std::string text;
    try {
      text = chat_(messages, answer_next);
    } catch (const FormatError& error) {
      throw FormatError(fmt::format("{}: {}", where_, error.what()));
    }
    work_ += text.size() + look * messages.size();
    check_chat_work(work_, where_, most_work_);
    return text;
  }

 private:
  const ChatRenderer& chat_;
  const std::string& where_;
  std::size_t most_work_;
  std::size_t work_ = 0;
};

// The definition: every part is what the conversation up to there adds to the part before. Takes
// time by the square of the number of answers.
ChatText by_definition(const Json& messages, Renderer& render, const std::string& where) {
  ChatText out;
  const auto add = [&](std::string whole, bool answer, std::size_t message) {
    if (!whole.starts_with(out.text)) {
      throw FormatError(fmt::format(
          "{}: with message {} the model's chat template writes what was said before it "
          "differently, so the assistant's words cannot be told from the rest; give each answer a "
          "line of its own that ends with it, or write the text out as {{\"prompt\", "
          "\"completion\"}}",
          where, message));
    }
    out.text = std::move(whole);
    out.parts.push_back({out.text.size(), answer});
  };
  Json said = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool answer = is_answer(messages[i]);
    if (answer) add(render(said, true), false, i + 1);
    said.push_back(messages[i]);
    if (answer) add(render(said, false), true, i + 1);
  }
  if (!is_answer(messages.back())) add(render(said, false), false, messages.size());
  return out;
}

Json first_of(const Json& messages, std::size_t count) {
  return Json(
      Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)));
}

// The same in time by the number of messages, for templates that write a turn the same way whatever
// was said before: nearly all do. Each turn is rendered behind a first turn of next to no words
// instead of behind everything. That is a guess, so it is held against the whole conversation's
// text, which all parts must make up, and against the definition at the turns 1, 2, 4, 8 and so on.
class ByTurns {
 public:
  ByTurns(const Json& messages, Renderer& render) : messages_(messages), render_(render) {}

  // Nothing where the guess is wrong.
  std::optional<ChatText> find() {
    out_.text = render_(messages_, false);
    std::size_t next = 0;
    while (!is_answer(messages_[next])) ++next;
    if (!add(render_(first_of(messages_, next), true), 0, false)) return std::nullopt;
    Json first = first_of(messages_, ++next);
    if (!add(render_(first, false), end_, true)) return std::nullopt;
    for (Json& message : first) message["content"] = "x";
    const std::string before = render_(first, false);
    while (next < messages_.size()) {
      if (!add_turn(first, before, next)) return std::nullopt;
    }
    if (end_ != out_.text.size() || !agrees()) return std::nullopt;
    return std::move(out_);
  }

 private:
  // A part that ends a rendered text, whose first `known` bytes belong to what is before it.
  bool add(std::string_view rendered, std::size_t known, bool answer) {
    if (rendered.size() < known) return false;
    const std::string_view part = rendered.substr(known);
    if (!std::string_view(out_.text).substr(end_).starts_with(part)) return false;
    end_ += part.size();
    out_.parts.push_back({end_, answer});
    return true;
  }

  // The messages from `next` up to the next answer, or to the end.
  bool add_turn(const Json& first, const std::string& before, std::size_t& next) {
    Json said = first;
    while (next < messages_.size() && !is_answer(messages_[next]))
      said.push_back(messages_[next++]);
    const bool answered = next < messages_.size();
    const std::string asked = render_(said, answered);
    if (!asked.starts_with(before) || !add(asked, before.size(), false)) return false;
    if (!answered) return true;
    said.push_back(messages_[next++]);
    const std::string whole = render_(said, false);
    return whole.starts_with(asked) && add(whole, asked.size(), true);
  }

  bool agrees() {
    std::size_t answers = 0;
    std::size_t to_check = 1;
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      if (!is_answer(messages_[i]) || ++answers != to_check) continue;
      to_check *= 2;
      const auto is = [&](std::size_t part, const std::string& rendered) {
        return rendered == std::string_view(out_.text).substr(0, out_.parts[part].end);
      };
      if (!is(2 * answers - 2, render_(first_of(messages_, i), true)) ||
          !is(2 * answers - 1, render_(first_of(messages_, i + 1), false))) {
        return false;
      }
    }
    return true;
  }

  const Json& messages_;
  Renderer& render_;
  ChatText out_;
  std::size_t end_ = 0;  // of the parts so far
};

std::optional<ChatText> by_turns(const Json& messages, Renderer& render) {
  try {
    return ByTurns(messages, render).find();
  } catch (const FormatError&) {
    // Perhaps only turns out of their place are refused.
    return std::nullopt;
  }
}

}  // namespace

void check_chat_work(std::size_t bytes, const std::string& where, std::size_t most) {
  if (bytes <= most) return;
  throw FormatError(fmt::format(
      "{}: the conversation would take more than {} of rendering and tokenizing, as the model's "
      "chat template has to write it out once for every answer; split it into several lines",
      where, format_bytes(static_cast<Bytes>(most))));
}

ChatText chat_text(const Json& messages, const ChatRenderer& chat, const std::string& where,
                   std::size_t most_work) {
  Renderer render(chat, where, most_work);
  if (messages.size() > kFewMessages) {
    if (std::optional<ChatText> found = by_turns(messages, render)) return std::move(*found);
  }
  return by_definition(messages, render, where);
}

}  // namespace ebb::text
