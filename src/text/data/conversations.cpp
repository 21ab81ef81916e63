#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "text/data/continuation.h"
#include "text/data/examples.h"

namespace ebb::text {
namespace {

bool is_assistant(const Json& message) { return message.at("role") == "assistant"; }

void check_messages(const Json& messages, const std::string& where) {
  if (!messages.is_array()) {
    throw FormatError(
        fmt::format("{}: \"messages\" is of type {}; expected a list of {{\"role\", "
                    "\"content\"}} objects",
                    where, messages.type_name()));
  }
  if (messages.empty()) {
    throw FormatError(fmt::format(
        "{}: \"messages\" is empty; a conversation needs at least one answer of the assistant",
        where));
  }
  bool answered = false;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Json& message = messages[i];
    for (const char* key : {"role", "content"}) {
      const auto value = message.is_object() ? message.find(key) : message.end();
      if (!message.is_object() || value == message.end() || !value->is_string()) {
        throw FormatError(fmt::format(
            "{}: message {} should be an object with a string \"{}\", found {}", where, i + 1, key,
            !message.is_object()     ? message.type_name()
            : value == message.end() ? "none"
                                     : value->type_name()));
      }
    }
    answered = answered || is_assistant(message);
  }
  if (!answered) {
    throw FormatError(fmt::format(
        "{}: none of the {} messages has the role \"assistant\", so there is nothing to learn; add "
        "the answer, or give the text as {{\"text\": ...}}",
        where, messages.size()));
  }
}

// Tokenizes a conversation part by part, each the continuation of the text so far.
class Parts {
 public:
  Parts(const Encoding& encoding, const std::string& where)
      : all_(encoding.loss_on_all), where_(where), text_(*encoding.tokenizer) {}

  // `whole` is the text up to the part's end; `message` counts from 1.
  void add(std::string whole, bool with_loss, std::size_t message) {
    if (!whole.starts_with(text_.text())) {
      throw FormatError(fmt::format(
          "{}: with message {} the model's chat template writes what was said before it "
          "differently, so the assistant's words cannot be told from the rest; give each answer a "
          "line of its own that ends with it, or write the text out as {{\"prompt\", "
          "\"completion\"}}",
          where_, message));
    }
    for (const std::int32_t id : text_.extend(std::move(whole))) {
      item_.tokens.push_back(with_loss || all_ ? id : ~id);
    }
  }

  Item take() { return std::move(item_); }

 private:
  bool all_;
  const std::string& where_;
  Continuation text_;
  // The template ends the conversation its own way, without end of text.
  Item item_{.tokens = {}, .next = Item::kUnknown};
};

}  // namespace

Item encode_conversation(const Json& messages, const Encoding& encoding, const std::string& where) {
  check_messages(messages, where);
  if (!encoding.chat) {
    throw FormatError(fmt::format(
        "{}: \"messages\" needs a chat template, and the model's folder has none (neither "
        "chat_template.jinja nor one in tokenizer_config.json). Give --tokenizer a folder that has "
        "one, or write the text out as {{\"prompt\", \"completion\"}}",
        where));
  }
  const auto render = [&](const Json& part, bool answer_next) {
    try {
      return encoding.chat(part, answer_next);
    } catch (const FormatError& error) {
      throw FormatError(fmt::format("{}: {}", where, error.what()));
    }
  };
  Parts parts(encoding, where);
  Json said = Json::array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const bool answer = is_assistant(messages[i]);
    if (answer) parts.add(render(said, true), false, i + 1);
    said.push_back(messages[i]);
    if (answer) parts.add(render(said, false), true, i + 1);
  }
  if (!is_assistant(messages.back())) parts.add(render(said, false), false, messages.size());
  Item item = parts.take();
  if (item.tokens.empty()) {
    throw FormatError(fmt::format(
        "{}: the model's chat template makes an empty text of this conversation", where));
  }
  return item;
}

}  // namespace ebb::text
