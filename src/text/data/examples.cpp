#include "text/data/examples.h"

#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "base/utf8.h"
#include "ebb/error.h"
#include "text/data/continuation.h"

namespace ebb::text {
namespace {

constexpr std::string_view kExpected =
    "expected \"text\", or \"prompt\" and \"completion\", or \"instruction\" and \"output\", or "
    "\"messages\", or \"conversations\"; name others with --text-column or --messages-column";

// Keys may be of the user's own making, so of any length.
std::string in_double_quotes(std::string_view key) {
  std::string quoted = in_quotes(key);
  quoted.front() = quoted.back() = '"';
  return quoted;
}

std::string keys_of(const Json& example) {
  constexpr int most = 6;
  std::string keys;
  int count = 0;
  for (const auto& [key, value] : example.items()) {
    if (++count > most) return keys + ", ...";
    keys += (keys.empty() ? "" : ", ") + in_quotes(key);
  }
  return keys.empty() ? "none" : keys;
}

const Json& value_at(const Json& example, const std::string& key, const std::string& where) {
  const auto value = example.find(key);
  if (value == example.end()) {
    throw FormatError(fmt::format(
        "{}: {} is missing, which the first line of the file has; the keys found are: {}. Give the "
        "line the same keys, or put it into a file of its own",
        where, in_double_quotes(key), keys_of(example)));
  }
  return *value;
}

const std::string& text_at(const Json& example, const std::string& key, const std::string& where) {
  const Json& value = value_at(example, key, where);
  if (!value.is_string()) {
    throw FormatError(fmt::format("{}: {} is of type {}; expected a string", where,
                                  in_double_quotes(key), value.type_name()));
  }
  return value.get_ref<const std::string&>();
}

// The same where it may be missing or null.
std::string text_or_nothing(const Json& example, const std::string& key, const std::string& where) {
  const auto value = example.find(key);
  return value == example.end() || value->is_null() ? std::string() : text_at(example, key, where);
}

// ShareGPT's names for who speaks; what is none of them is taken as a role.
std::string role_of(const std::string& from) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"human", "user"},      {"gpt", "assistant"},  {"chatgpt", "assistant"},
      {"bing", "assistant"},  {"bard", "assistant"}, {"model", "assistant"},
      {"observation", "tool"}};
  for (const auto& [name, role] : names) {
    if (from == name) return std::string(role);
  }
  return from;
}

// The messages of an example by the names that chat templates know.
Json messages_of(const Json& example, const Layout& layout, const std::string& where) {
  Json messages = value_at(example, layout.key, where);
  // Columns of CSV are text, and so are some of JSONL.
  if (messages.is_string()) {
    messages = parse_json(messages.get_ref<const std::string&>(),
                          where + ", " + in_double_quotes(layout.key));
  }
  // What is no list is told where its messages are looked at.
  if (!messages.is_array()) return messages;
  bool of_sharegpt = false;
  for (Json& message : messages) {
    if (!message.is_object() || message.contains("role")) continue;
    const auto from = message.find("from");
    const auto value = message.find("value");
    if (from == message.end() || value == message.end() || !from->is_string()) continue;
    of_sharegpt = true;
    message = Json{{"role", role_of(from->get_ref<const std::string&>())}, {"content", *value}};
  }
  // There what the system says may stand beside the conversation.
  const std::string system = of_sharegpt ? text_or_nothing(example, "system", where) : "";
  const bool begins =
      !messages.empty() && messages[0].is_object() && messages[0].value("role", Json()) == "system";
  if (!system.empty() && !begins) {
    messages.insert(messages.begin(), Json{{"role", "system"}, {"content", system}});
  }
  return messages;
}

// What the user says of an instruction: the task, and what it is about.
std::string instruction_of(const Json& example, const std::string& where) {
  const std::string input = text_or_nothing(example, "input", where);
  const std::string& task = text_at(example, "instruction", where);
  return input.empty() ? task : task + "\n\n" + input;
}

void append(Item& item, const std::vector<std::int32_t>& ids, bool with_loss) {
  for (const std::int32_t id : ids) item.tokens.push_back(with_loss ? id : ~id);
}

}  // namespace

Form form_of(const Layout& layout) {
  switch (layout.kind) {
    case Layout::Kind::text: return Form::texts;
    case Layout::Kind::completion: return Form::completions;
    default: return Form::conversations;
  }
}

void check_utf8(std::string_view record, std::string_view where) {
  const std::optional<std::size_t> bad = utf8::find_invalid(record);
  if (!bad) return;
  throw FormatError(
      fmt::format("{}, byte {}: 0x{:02x} is not UTF-8 here; is a part of the file in another "
                  "encoding? Convert it, for example with: iconv -f LATIN1 -t UTF-8 FILE > NEW",
                  where, *bad + 1, static_cast<unsigned char>(record[*bad])));
}

Json parse_example(const std::string& line, const std::string& where) {
  check_utf8(line, where);
  Json example = parse_json(line, where);
  if (!example.is_object()) {
    throw FormatError(fmt::format("{}: expected a JSON object, found {}; {}", where,
                                  example.type_name(), kExpected));
  }
  return example;
}

Layout layout_of(const Json& example, const Columns& columns, const std::string& where) {
  using Kind = Layout::Kind;
  const auto has = [&](const std::string& key) { return !key.empty() && example.contains(key); };
  if (has(columns.messages)) return {.kind = Kind::messages, .key = columns.messages};
  if (has(columns.text)) return {.kind = Kind::text, .key = columns.text};
  if (!columns.messages.empty() || !columns.text.empty()) {
    const bool text = !columns.text.empty();
    throw FormatError(
        fmt::format("{}: there is no {}, which --{}-column names; the keys found "
                    "are: {}",
                    where, in_double_quotes(text ? columns.text : columns.messages),
                    text ? "text" : "messages", keys_of(example)));
  }
  for (const char* key : {"messages", "conversations"}) {
    if (has(key)) return {.kind = Kind::messages, .key = key};
  }
  if (has("prompt") && has("completion")) return {.kind = Kind::completion};
  if (has("instruction") && has("output")) return {.kind = Kind::instruction};
  if (has("text")) return {.kind = Kind::text, .key = "text"};
  throw FormatError(
      fmt::format("{}: the keys found are: {}; {}", where, keys_of(example), kExpected));
}

Item encode_example(const Json& example, const Layout& layout, const Encoding& encoding,
                    const std::string& where) {
  using Kind = Layout::Kind;
  if (layout.kind == Kind::messages) {
    return encode_conversation(messages_of(example, layout, where), encoding, where);
  }
  if (layout.kind == Kind::instruction && encoding.chat) {
    Json messages = Json::array();
    const std::string system = text_or_nothing(example, "system", where);
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", instruction_of(example, where)}});
    messages.push_back({{"role", "assistant"}, {"content", text_at(example, "output", where)}});
    return encode_conversation(messages, encoding, where);
  }
  const Tokenizer& tokenizer = *encoding.tokenizer;
  const bool all = encoding.loss_on_all;
  Item item;
  if (layout.kind == Kind::text) {
    const std::string& text = text_at(example, layout.key, where);
    append(item, tokenizer.prefix(), true);
    append(item, tokenizer.encode(text), true);
  } else {
    const bool asked = layout.kind == Kind::completion;
    const std::string prompt =
        asked ? text_at(example, "prompt", where) : instruction_of(example, where) + "\n";
    const std::string& completion = text_at(example, asked ? "completion" : "output", where);
    append(item, tokenizer.prefix(), all);
    Continuation text(tokenizer);
    append(item, text.extend(prompt), all);
    append(item, text.extend(completion), true);
  }
  append(item, ending(tokenizer), true);
  return item;
}

}  // namespace ebb::text
