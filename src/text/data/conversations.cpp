#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "text/data/chat_text.h"
#include "text/data/continuation.h"
#include "text/data/examples.h"

namespace ebb::text {
namespace {

bool is_assistant(const Json& message) { return message.at("role") == "assistant"; }

void check_messages(const Json& messages, const std::string& where) {
  if (!messages.is_array()) {
    throw FormatError(
        fmt::format("{}: the messages are of type {}; expected a list of {{\"role\", \"content\"}} "
                    "objects",
                    where, messages.type_name()));
  }
  if (messages.empty()) {
    throw FormatError(
        fmt::format("{}: the list of messages is empty; a conversation needs at least one answer "
                    "of the assistant",
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

// Where all of it is learned, it need not be known who says what: then one text will do for
// templates that do not only add.
ChatText text_of(const Json& messages, const Encoding& encoding, const std::string& where) {
  if (!encoding.loss_on_all) return chat_text(messages, encoding.chat, where);
  try {
    ChatText chat = chat_text(messages, encoding.chat, where);
    if (std::ranges::none_of(chat.parts, &ChatText::Part::anew)) return chat;
  } catch (const FormatError&) {
    // What is wrong with the messages is wrong with their text, too.
  }
  ChatText whole;
  try {
    whole.text = encoding.chat(messages, false);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", where, error.what()));
  }
  whole.parts.push_back({.end = whole.text.size(), .answer = true});
  return whole;
}

}  // namespace

Item encode_conversation(const Json& messages, const Encoding& encoding, const std::string& where) {
  check_messages(messages, where);
  if (!encoding.chat) {
    // No fault of the line: with the others it would be the same.
    throw ConfigError(fmt::format(
        "{}: \"messages\" needs a chat template, and the model's folder has none (neither "
        "chat_template.jinja nor one in tokenizer_config.json). Give --tokenizer a folder that has "
        "one, or write the text out as {{\"prompt\", \"completion\"}}",
        where));
  }
  const ChatText chat = text_of(messages, encoding, where);
  std::optional<Continuation> text(*encoding.tokenizer);
  // The template ends the conversation its own way, without end of text.
  Item item{.tokens = {}, .next = Item::kUnknown};
  std::size_t begin = 0;
  std::size_t encoded_bytes = 0;
  for (const ChatText::Part& part : chat.parts) {
    if (part.anew) {
      encoded_bytes += text->encoded_bytes();
      text.emplace(*encoding.tokenizer);
      item.part_begins.push_back(item.tokens.size());
    }
    const std::string_view words = std::string_view(chat.text).substr(begin, part.end - begin);
    for (const std::int32_t id : text->extend(words)) {
      item.tokens.push_back(part.answer || encoding.loss_on_all ? id : ~id);
    }
    begin = part.end;
    check_chat_work(encoded_bytes + text->encoded_bytes(), where);
  }
  if (item.tokens.empty()) {
    throw FormatError(fmt::format(
        "{}: the model's chat template makes an empty text of this conversation", where));
  }
  return item;
}

}  // namespace ebb::text
