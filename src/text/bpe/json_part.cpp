#include "text/bpe/json_part.h"

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::text::bpe {

namespace {

// More steps than any tokenizer has: what follows may recurse over them.
constexpr std::size_t kMostSteps = 32;

void flatten(const JsonPart& part, std::string_view key, std::vector<JsonPart>& out) {
  if (part.type() == "Sequence") {
    for (const JsonPart& item : part.at(key).items()) flatten(item, key, out);
  } else {
    out.push_back(part);
  }
  if (out.size() > kMostSteps) part.refuse(fmt::format("more than {} steps", kMostSteps));
}

}  // namespace

Document parse_document(std::string_view text, const std::string& where) {
  constexpr int deepest = 32;
  bool too_deep = false;
  const auto bounded = [&](int depth, Document::parse_event_t, Document&) {
    if (depth > deepest) too_deep = true;
    return !too_deep;
  };
  Document json = Document::parse(text, bounded, false);
  if (too_deep)
    throw FormatError(fmt::format("{}: JSON nested deeper than {} levels", where, deepest));
  if (json.is_discarded()) throw FormatError(fmt::format("{}: this is not JSON", where));
  return json;
}

JsonPart JsonPart::at(std::string_view key) const {
  if (!json_->is_object()) refuse("expected an object");
  const auto found = json_->find(key);
  if (found == json_->end()) refuse(fmt::format("'{}' is missing", key));
  return {*found, fmt::format("{}.{}", place_, key)};
}

bool JsonPart::has(std::string_view key) const {
  if (!json_->is_object()) refuse("expected an object");
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

const std::string& JsonPart::text() const {
  if (!json_->is_string()) refuse("expected a string");
  return json_->get_ref<const std::string&>();
}

std::vector<JsonPart> JsonPart::items() const {
  if (!json_->is_array()) refuse("expected a list");
  std::vector<JsonPart> parts;
  parts.reserve(json_->size());
  for (const Document& item : *json_) {
    parts.emplace_back(item, fmt::format("{}[{}]", place_, parts.size()));
  }
  return parts;
}

std::int64_t JsonPart::number(std::int64_t lowest, std::int64_t highest) const {
  // Unsigned values above the largest signed one would come back negative.
  const bool fits = json_->is_number_integer() &&
                    (!json_->is_number_unsigned() ||
                     json_->get<std::uint64_t>() <= static_cast<std::uint64_t>(highest)) &&
                    json_->get<std::int64_t>() >= lowest && json_->get<std::int64_t>() <= highest;
  if (!fits) {
    refuse(fmt::format("expected a whole number from {} to {}, found {}", lowest, highest,
                       json_->is_structured() ? "something else" : json_->dump()));
  }
  return json_->get<std::int64_t>();
}

std::string JsonPart::text_or(std::string_view key, std::string_view otherwise) const {
  return has(key) ? at(key).text() : std::string(otherwise);
}

bool JsonPart::flag_or(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const JsonPart part = at(key);
  if (!part.json().is_boolean()) part.refuse("expected true or false");
  return part.json().get<bool>();
}

void JsonPart::refuse(std::string_view why) const {
  throw FormatError(fmt::format("{}: {}", place_, why));
}

std::vector<JsonPart> sequence_of(const JsonPart& parent, std::string_view name,
                                  std::string_view key) {
  std::vector<JsonPart> parts;
  if (parent.has(name)) flatten(parent.at(name), key, parts);
  return parts;
}

}  // namespace ebb::text::bpe
