#include "text/chat/chat_template.h"

#include <fmt/format.h>

#include "base/json.h"
#include "ebb/error.h"
#include "text/chat/evaluator.h"
#include "text/chat/parser.h"
#include "text/chat/printing.h"
#include "text/chat/unicode.h"

namespace ebb::text {
namespace {

// What a byte of a template becomes as syntax, at most: {{a}} and the like.
constexpr std::size_t kSyntaxBytes = 128;

// Reasoning comes under several names. transformers shows it to templates under the two that they
// read, so a model sees the same text here and there.
Json with_reasoning(const Json& message) {
  const Json* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = message.find(name);
    if (!reasoning && found != message.end() && !found->is_null()) reasoning = &*found;
  }
  if (!reasoning) return message;
  // Each key is there once, so none has to be looked for among all before it.
  Json::object_t named;
  named.reserve(message.size() + 2);
  named.emplace_back("thinking", message.value("thinking", *reasoning));
  bool has_content = false;
  for (const auto& [key, value] : message.get_ref<const Json::object_t&>()) {
    if (key == "thinking") continue;
    const bool is_content = key == "reasoning_content";
    named.emplace_back(key, is_content ? *reasoning : value);
    has_content = has_content || is_content;
  }
  if (!has_content) named.emplace_back("reasoning_content", *reasoning);
  return named;
}

jinja::Value conversation(const Json& messages, const std::string& where) {
  if (!messages.is_array())
    throw FormatError(fmt::format("{}: 'messages' must be a JSON array", where));
  jinja::Items items;
  for (const Json& message : messages) {
    if (!message.is_object())
      throw FormatError(
          fmt::format("{}: message {} must be a JSON object with \"role\" and "
                      "\"content\"",
                      where, items.size() + 1));
    try {
      items.push_back(jinja::from_json(with_reasoning(message)));
    } catch (const jinja::Failure& failure) {
      throw FormatError(fmt::format("{}: message {}: {}", where, items.size() + 1, failure.what()));
    }
  }
  return jinja::Value::list(std::move(items));
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string where, RenderLimits limits)
    : template_(jinja::parse(source, where)),
      where_(std::move(where)),
      limits_(limits),
      memory_bytes_(kSyntaxBytes * source.size()) {}

std::string ChatTemplate::render(const Json& messages,
                                 const std::map<std::string, std::string>& tokens,
                                 bool answer_next) const {
  jinja::Meter meter(limits_.value_bytes());
  const jinja::Metering metering(meter);
  std::vector<std::pair<std::string, jinja::Value>> variables;
  for (const auto& [name, text] : tokens) {
    if (!jinja::is_valid_utf8(text))
      throw FormatError(fmt::format("{}: the token '{}' is not UTF-8", where_, name));
    variables.emplace_back(name, text);
  }
  variables.emplace_back("messages", conversation(messages, where_));
  variables.emplace_back("tools", jinja::Value());
  variables.emplace_back("documents", jinja::Value());
  variables.emplace_back("add_generation_prompt", answer_next);
  return jinja::render(*template_, variables, where_, limits_);
}

}  // namespace ebb::text
