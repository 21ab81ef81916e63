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
    "expected \"text\", or \"prompt\" and \"completion\", or \"messages\"";

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

const std::string& text_at(const Json& example, const char* key, const std::string& where) {
  const auto value = example.find(key);
  if (value == example.end()) {
    throw FormatError(fmt::format(
        "{}: \"{}\" is missing, which the first line of the file has; the keys found are: {}. Give "
        "the line the same keys, or put it into a file of its own",
        where, key, keys_of(example)));
  }
  if (!value->is_string()) {
    throw FormatError(
        fmt::format("{}: \"{}\" is of type {}; expected a string", where, key, value->type_name()));
  }
  return value->get_ref<const std::string&>();
}

void append(Item& item, const std::vector<std::int32_t>& ids, bool with_loss) {
  for (const std::int32_t id : ids) item.tokens.push_back(with_loss ? id : ~id);
}

}  // namespace

Json parse_example(const std::string& line, const std::string& where) {
  if (const std::optional<std::size_t> bad = utf8::find_invalid(line)) {
    throw FormatError(
        fmt::format("{}, byte {}: 0x{:02x} is not UTF-8 here; is a part of the file in another "
                    "encoding? Convert it, for example with: iconv -f LATIN1 -t UTF-8 FILE > NEW",
                    where, *bad + 1, static_cast<unsigned char>(line[*bad])));
  }
  Json example = parse_json(line, where);
  if (!example.is_object()) {
    throw FormatError(fmt::format("{}: expected a JSON object, found {}; {}", where,
                                  example.type_name(), kExpected));
  }
  return example;
}

Form form_of(const Json& example, const std::string& where) {
  if (example.contains("messages")) return Form::conversations;
  if (example.contains("prompt") && example.contains("completion")) return Form::completions;
  if (example.contains("text")) return Form::texts;
  throw FormatError(
      fmt::format("{}: the keys found are: {}; {}", where, keys_of(example), kExpected));
}

Item encode_example(const Json& example, Form form, const Encoding& encoding,
                    const std::string& where) {
  if (form == Form::conversations) {
    const auto messages = example.find("messages");
    // Found or not, the error is the same as for other keys.
    if (messages == example.end()) text_at(example, "messages", where);
    return encode_conversation(*messages, encoding, where);
  }
  const Tokenizer& tokenizer = *encoding.tokenizer;
  const bool all = encoding.loss_on_all;
  Item item;
  if (form == Form::texts) {
    const std::string& text = text_at(example, "text", where);
    append(item, tokenizer.prefix(), true);
    append(item, tokenizer.encode(text), true);
  } else {
    const std::string& prompt = text_at(example, "prompt", where);
    const std::string& completion = text_at(example, "completion", where);
    append(item, tokenizer.prefix(), all);
    Continuation text(tokenizer);
    append(item, text.extend(prompt), all);
    append(item, text.extend(completion), true);
  }
  append(item, ending(tokenizer), true);
  return item;
}

}  // namespace ebb::text
