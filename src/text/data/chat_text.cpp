#include "text/data/chat_text.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "base/printable.h"
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

void check_parts(std::size_t bytes, std::size_t longest, const std::string& where) {
  const auto most = std::min(static_cast<std::size_t>(kMostPartsText),
                             static_cast<std::size_t>(kMostPartsGrowth) * longest);
  if (bytes <= std::max(most, longest)) return;
  throw FormatError(fmt::format(
      "{}: the model's chat template writes earlier turns in another way once more is said, so "
      "each answer has a text of its own: {} in all, of which {} are allowed for one line; split "
      "the conversation into several lines",
      where, format_bytes(static_cast<Bytes>(bytes)), format_bytes(static_cast<Bytes>(most))));
}

// What a model says first that thought nothing: "<think>" and the like are closed at once.
std::string nothing_thought(std::string_view opening) {
  const std::size_t begin = opening.find('<');
  const std::size_t end = opening.find('>');
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return std::string(opening);
  }
  return fmt::format("{}\n</{}>\n\n", opening, opening.substr(begin + 1, end - begin - 1));
}

// As it would stand in a file, and not longer than an error's text may be.
std::string shown(std::string_view text) { return Json(printable(text, 100)).dump(); }

std::string_view without_space_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
}

// What the model is to say behind `asked`, which the template does not go on from: `whole` is the
// conversation with the answer, the last of `said`.
std::string taken_back(const std::string& asked, const std::string& whole, Json said,
                       Renderer& render, const std::string& where) {
  // What the template writes around an answer shows where it is.
  constexpr std::string_view mark = "\u2021";
  const std::string content = said.back().at("content").get<std::string>();
  const std::size_t message = said.size();
  said.back() = Json{{"role", said.back().at("role")}, {"content", mark}};
  const std::string marked = render(said, false);
  const std::size_t at = marked.rfind(mark);
  const bool begins =
      at != std::string::npos && at <= asked.size() &&
      std::string_view(marked).substr(0, at) == std::string_view(asked).substr(0, at) &&
      std::string_view(whole).starts_with(std::string_view(marked).substr(0, at));
  const std::string_view behind =
      begins ? std::string_view(marked).substr(at + mark.size()) : std::string_view();
  std::string_view words = begins ? std::string_view(whole).substr(at) : std::string_view();
  if (!begins || !words.ends_with(behind)) {
    throw FormatError(fmt::format(
        "{}: with message {} the model's chat template writes what was said before it differently, "
        "so the assistant's words cannot be told from the rest; write the text out as "
        "{{\"prompt\", \"completion\"}}",
        where, message));
  }
  words.remove_suffix(behind.size());
  const std::string_view opening = std::string_view(asked).substr(at);
  std::string_view answer = content;
  if (!answer.ends_with(words)) answer = without_space_behind(answer);
  if (!answer.starts_with(opening) || !answer.ends_with(words)) {
    throw FormatError(fmt::format(
        "{}: the model's chat template asks for an answer with {}, which message {} does not begin "
        "with; so the model would learn to go on from what it never sees. Begin the \"content\" "
        "with it and with what the assistant thought, as the model itself answers (where nothing "
        "was thought: {}), or write the text out as {{\"prompt\", \"completion\"}}",
        where, shown(opening), message, shown(nothing_thought(opening))));
  }
  return std::string(answer.substr(opening.size())) + std::string(behind);
}

// The definition. Takes time by the square of the number of answers.
ChatText by_definition(const Json& messages, Renderer& render, const std::string& where) {
  ChatText out;
  std::size_t begin = 0;  // of what was written last from the conversation's beginning
  const auto written = [&] { return std::string_view(out.text).substr(begin); };
  const auto add = [&](std::string_view more, bool answer, bool anew) {
    out.text += more;
    out.parts.push_back({out.text.size(), answer, anew});
  };
  std::size_t longest = 0;
  Json said = Json::array();
  for (const Json& message : messages) {
    if (!is_answer(message)) {
      said.push_back(message);
      continue;
    }
    const std::string asked = render(said, true);
    said.push_back(message);
    const std::string whole = render(said, false);
    const bool anew = !asked.starts_with(written());
    if (anew) begin = out.text.size();
    add(std::string_view(asked).substr(written().size()), false, anew);
    add(whole.starts_with(asked) ? whole.substr(asked.size())
                                 : taken_back(asked, whole, said, render, where),
        true, false);
    longest = std::max({longest, whole.size(), asked.size()});
    check_parts(out.text.size(), begin > 0 ? longest : out.text.size(), where);
  }
  // Nothing of what comes behind the last answer is learned; where it changes that, it is left out.
  if (!is_answer(messages.back())) {
    const std::string whole = render(said, false);
    if (whole.starts_with(written())) {
      add(std::string_view(whole).substr(written().size()), false, false);
    }
  }
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
