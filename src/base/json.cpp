#include "base/json.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "ebb/error.h"

namespace ebb {
namespace {

// Trees are compared, printed and destroyed by code that recurses.
constexpr std::size_t kDeepest = 64;

// Builds the tree from the parser's events, in time that grows with the text. The library's own
// builder looks for each key among all before it, and where a callback bounds the depth it walks a
// list again at the end of each of its objects: hours for a few MiB of hostile text.
class TreeEvents final : public nlohmann::json_sax<Json> {
 public:
  explicit TreeEvents(std::string_view where) : where_(where) {}

  Json root;

  bool null() override { return place(nullptr) != nullptr; }
  bool boolean(bool value) override { return place(value) != nullptr; }
  bool number_integer(std::int64_t value) override { return place(value) != nullptr; }
  bool number_unsigned(std::uint64_t value) override { return place(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return place(value) != nullptr; }
  bool string(std::string& value) override { return place(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }  // text has none

  bool start_object(std::size_t) override { return open(Json::object()); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    refuse_repeated_keys(open_.back()->get_ref<const Json::object_t&>());
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw FormatError(fmt::format("{}: this is not JSON: it breaks at byte {}", where_, position));
  }

 private:
  bool open(Json value) {
    if (open_.size() == kDeepest) {
      throw FormatError(fmt::format("{}: JSON nested deeper than {} levels", where_, kDeepest));
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  // A value that is open is the last of its parent, so no other moves it.
  Json* place(Json value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    auto& members = parent.get_ref<Json::object_t&>();
    members.emplace_back(std::move(key_), std::move(value));
    return &members.back().second;
  }

  void refuse_repeated_keys(const Json::object_t& members) const {
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& [key, value] : members) keys.emplace_back(key);
    std::sort(keys.begin(), keys.end());
    const auto repeated = std::adjacent_find(keys.begin(), keys.end());
    if (repeated != keys.end()) {
      throw FormatError(fmt::format("{}: expected each key of an object once, found {} twice",
                                    where_, in_quotes(*repeated)));
    }
  }

  std::string_view where_;
  std::vector<Json*> open_;  // from the root to the value at hand
  std::string key_;
};

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  // The parser takes a zero byte for the end of its input and would hide what comes after it.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    throw FormatError(fmt::format("{}: this is not JSON: byte {} is zero", where, at));
  }
  TreeEvents events(where);
  Json::sax_parse(text, &events);
  return std::move(events.root);
}

}  // namespace ebb
