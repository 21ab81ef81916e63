// A part of tokenizer.json that knows where it stands, so that every complaint can say so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/sorted_json.h"

namespace ebb::text::bpe {

// A view: the document outlives it. Every failure is a FormatError with the file and the place.
class JsonPart {
 public:
  JsonPart(const SortedJson& json, std::string place) : json_(&json), place_(std::move(place)) {}

  const SortedJson& json() const { return *json_; }
  const std::string& place() const { return place_; }

  // A member that must be there; a member that may be missing or null.
  JsonPart at(std::string_view key) const;
  bool has(std::string_view key) const;

  // The value itself. The parts of a list come one by one: all at once, their places would take
  // many times the file's memory.
  const std::string& text() const;
  std::size_t size() const;
  JsonPart operator[](std::size_t i) const;
  std::int64_t number(std::int64_t lowest, std::int64_t highest) const;

  // A member, or what it is where it is missing.
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool flag_or(std::string_view key, bool otherwise) const;

  // What "type" says.
  const std::string& type() const { return at("type").text(); }

  [[noreturn]] void refuse(std::string_view why) const;

 private:
  const SortedJson* json_;
  std::string place_;
};

// A part that may be one thing or, with type "Sequence", several under `key`: them, in order. A
// part that is missing or null is none.
std::vector<JsonPart> sequence_of(const JsonPart& parent, std::string_view name,
                                  std::string_view key);

}  // namespace ebb::text::bpe
