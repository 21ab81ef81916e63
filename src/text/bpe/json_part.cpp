#include "text/bpe/json_part.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb::text::bpe {

namespace {

// More steps than any tokenizer has: what follows may recurse over them.
constexpr std::size_t kMostSteps = 32;

void flatten(const JsonPart& part, std::string_view key, std::vector<JsonPart>& out) {
  if (part.type() == "Sequence") {
    const JsonPart list = part.at(key);
    for (std::size_t i = 0; i < list.size(); ++i) flatten(list[i], key, out);
  } else {
    out.push_back(part);
  }
  if (out.size() > kMostSteps) part.refuse(fmt::format("more than {} steps", kMostSteps));
}

}  // namespace

JsonPart JsonPart::at(std::string_view key) const {
  if (!json_->is_object()) refuse("expected an object");
  const auto found = json_->find(key);
  if (found == json_->end()) refuse(fmt::format("{} is missing", in_quotes(key)));
  const std::string name = in_quotes(key);
  return {*found, fmt::format("{}.{}", place_, std::string_view(name).substr(1, name.size() - 2))};
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

std::size_t JsonPart::size() const {
  if (!json_->is_array()) refuse("expected a list");
  return json_->size();
}

JsonPart JsonPart::operator[](std::size_t i) const {
  return {(*json_)[i], fmt::format("{}[{}]", place_, i)};
}

std::int64_t JsonPart::number(std::int64_t lowest, std::int64_t highest) const {
  // Unsigned values above the largest signed one would come back negative.
  const bool fits = json_->is_number_integer() &&
                    (!json_->is_number_unsigned() ||
                     json_->get<std::uint64_t>() <= static_cast<std::uint64_t>(highest)) &&
                    json_->get<std::int64_t>() >= lowest && json_->get<std::int64_t>() <= highest;
  if (!fits) {
    refuse(fmt::format("expected a whole number from {} to {}, found {}", lowest, highest,
                       json_->is_number() ? json_->dump() : json_->type_name()));
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
