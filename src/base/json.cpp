#include "base/json.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/sorted_json.h"
#include "ebb/error.h"

namespace ebb {
namespace {

// Trees are compared, printed and destroyed by code that recurses.
constexpr std::size_t kDeepest = 64;

// Builds the tree from the parser's events, in time that grows with the text. The library's own
// builder looks for each key among all before it, and where a callback bounds the depth it walks a
// list again at the end of each of its objects: hours for a few MiB of hostile text.
template <class Tree>
class TreeEvents final : public nlohmann::json_sax<Tree> {
 public:
  explicit TreeEvents(std::string_view where) : where_(where) {}

  Tree root;

  bool null() override { return place(nullptr) != nullptr; }
  bool boolean(bool value) override { return place(value) != nullptr; }
  bool number_integer(std::int64_t value) override { return place(value) != nullptr; }
  bool number_unsigned(std::uint64_t value) override { return place(value) != nullptr; }
  bool number_float(double value, const std::string&) override { return place(value) != nullptr; }
  bool string(std::string& value) override { return place(std::move(value)) != nullptr; }
  bool binary(typename Tree::binary_t&) override { return false; }  // text has none

  bool start_object(std::size_t) override { return open(Tree::object()); }
  bool key(std::string& name) override {
    key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    if constexpr (kKeepsOrder) refuse_repeated_keys();
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t) override { return open(Tree::array()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    if (std::string_view(error.what()).find("surrogate U+") != std::string_view::npos) {
      throw FormatError(fmt::format(
          "{}: at byte {} is half of a character, a lone surrogate such as \"\\ud83d\", which no "
          "text in UTF-8 can hold; remove it, or write the character whole",
          where_, position));
    }
    throw FormatError(fmt::format("{}: this is not JSON: it breaks at byte {}", where_, position));
  }

 private:
  using Members = typename Tree::object_t;
  static constexpr bool kKeepsOrder = std::is_same_v<Tree, Json>;

  bool open(Tree value) {
    if (open_.size() == kDeepest) {
      throw FormatError(fmt::format("{}: JSON nested deeper than {} levels", where_, kDeepest));
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  // A value that is open is the last of its parent, so no other moves it.
  Tree* place(Tree value) {
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Tree& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    auto& members = parent.template get_ref<Members&>();
    if constexpr (kKeepsOrder) {
      members.emplace_back(std::move(key_), std::move(value));
      return &members.back().second;
    } else {
      const auto [member, is_new] = members.try_emplace(std::move(key_), std::move(value));
      if (!is_new) refuse_repeated(member->first);
      return &member->second;
    }
  }

  // All at once, for looking among those before it takes longer for each.
  void refuse_repeated_keys() const {
    const auto& members = open_.back()->template get_ref<const Members&>();
    std::vector<std::string_view> keys;
    keys.reserve(members.size());
    for (const auto& [key, value] : members) keys.emplace_back(key);
    std::sort(keys.begin(), keys.end());
    const auto repeated = std::adjacent_find(keys.begin(), keys.end());
    if (repeated != keys.end()) refuse_repeated(*repeated);
  }

  [[noreturn]] void refuse_repeated(std::string_view key) const {
    throw FormatError(fmt::format("{}: expected each key of an object once, found {} twice", where_,
                                  in_quotes(key)));
  }

  std::string_view where_;
  std::vector<Tree*> open_;  // from the root to the value at hand
  std::string key_;
};

template <class Tree>
Tree parse_tree(std::string_view text, std::string_view where) {
  // The parser takes a zero byte for the end of its input and would hide what comes after it.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    throw FormatError(fmt::format("{}: this is not JSON: byte {} is zero", where, at));
  }
  TreeEvents<Tree> events(where);
  Tree::sax_parse(text, &events);
  return std::move(events.root);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view where) {
  return parse_tree<Json>(text, where);
}

SortedJson parse_sorted_json(std::string_view text, std::string_view where) {
  return parse_tree<SortedJson>(text, where);
}

}  // namespace ebb
