#include "text/chat/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/chat/budget.h"
#include "text/chat/operators.h"

namespace ebb::text::jinja {
namespace {

int depth_over(int deepest_item) {
  if (deepest_item >= kDeepestValue)
    throw Failure(fmt::format("lists nested deeper than {} levels", kDeepestValue));
  return deepest_item + 1;
}

std::shared_ptr<const List> make_list(Items items, bool is_tuple) {
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, item.depth());
  Charge charge(sizeof(List) + HeldText::kOverhead + items.capacity() * sizeof(Value));
  return std::make_shared<const List>(
      List{std::move(items), is_tuple, depth_over(deepest), std::move(charge)});
}

}  // namespace

Value Value::list(Items items) { return make_list(std::move(items), false); }
Value Value::tuple(Items items) { return make_list(std::move(items), true); }

Value Value::dict(Entries entries) {
  int deepest = 0;
  for (const auto& [key, value] : entries)
    deepest = std::max({deepest, key.depth(), value.depth()});
  Charge charge(sizeof(Dict) + HeldText::kOverhead + entries.capacity() * 2 * sizeof(Value));
  return std::make_shared<const Dict>(
      Dict{std::move(entries), depth_over(deepest), std::move(charge)});
}

Value Value::safe(std::string text) {
  Value value;
  value.data_ = Safe{std::make_shared<const HeldText>(std::move(text))};
  return value;
}

Value Value::undefined(std::string why) {
  Value value;
  value.data_ = Undefined{std::make_shared<const HeldText>(std::move(why))};
  return value;
}

std::shared_ptr<const List> Value::if_list() const {
  const auto* list = std::get_if<std::shared_ptr<const List>>(&data_);
  return list ? *list : nullptr;
}

const Dict* Value::if_dict() const {
  const auto* dict = std::get_if<std::shared_ptr<const Dict>>(&data_);
  return dict ? dict->get() : nullptr;
}

Object* Value::if_object() const {
  const auto* object = std::get_if<std::shared_ptr<Object>>(&data_);
  return object ? object->get() : nullptr;
}

std::optional<std::int64_t> Value::whole() const {
  if (const auto* truth = std::get_if<bool>(&data_)) return *truth;
  if (const auto* number = if_integer()) return *number;
  return std::nullopt;
}

double Value::real() const {
  if (const double* number = if_float()) return *number;
  if (const auto number = whole()) return static_cast<double>(*number);
  throw Failure(fmt::format("a number is needed, not '{}'", type_name()));
}

bool Value::truth() const {
  if (const auto* truth = std::get_if<bool>(&data_)) return *truth;
  if (const auto* number = if_integer()) return *number != 0;
  if (const auto* number = if_float()) return *number != 0;
  if (const auto* text = if_string()) return !text->empty();
  if (const auto list = if_list()) return !list->items.empty();
  if (const auto* dict = if_dict()) return !dict->entries.empty();
  if (const auto* iterable = if_object<Iterable>())
    return !iterable->has_length() || !iterable->items()->items.empty();
  return if_object() != nullptr;
}

std::string_view Value::type_name() const {
  if (is_none()) return "NoneType";
  if (is_undefined()) return "Undefined";
  if (is_bool()) return "bool";
  if (if_integer()) return "int";
  if (if_float()) return "float";
  if (if_string()) return is_safe() ? "Markup" : "str";
  if (const auto list = if_list()) return list->is_tuple ? "tuple" : "list";
  if (if_dict()) return "dict";
  return if_object()->type_name();
}

int Value::depth() const {
  if (const auto list = if_list()) return list->depth;
  if (const auto* dict = if_dict()) return dict->depth;
  if (const auto* iterable = if_object<Iterable>()) return iterable->items()->depth;
  return 0;
}

void Value::require_defined() const {
  if (const auto* undefined = std::get_if<Undefined>(&data_)) throw Failure(*undefined->why);
}

bool Value::same_object(const Value& other) const {
  if (const Object* object = if_object()) return object == other.if_object();
  return is_undefined() && other.is_undefined();
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (const auto* text = name.if_string(); text && *text == key) return &value;
  return nullptr;
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  budget.spend(entries.size() / 16);
  if (const auto* text = key.if_string()) {
    // Keys of its length may differ at their end alone.
    budget.spend_bytes(entries.size() * text->size());
    return find(std::string_view(*text));
  }
  for (const auto& [name, value] : entries)
    if (equals(name, key, budget)) return &value;
  return nullptr;
}

void insert(Entries& entries, Value key, Value value, Budget& budget) {
  require_hashable(key, budget);
  budget.spend(1 + entries.size() / 16);
  for (auto& entry : entries) {
    if (!equals(entry.first, key, budget)) continue;
    entry.second = std::move(value);
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
}

std::optional<Value> Object::attribute(std::string_view) { return std::nullopt; }

Value Object::call(const Arguments&, Budget&) {
  throw Failure(fmt::format("'{}' object is not callable", type_name()));
}

Iterable::Iterable(Kind kind, Items items)
    : kind_(kind), items_(make_list(std::move(items), false)) {}

std::string_view Iterable::type_name() const {
  switch (kind_) {
    case Kind::generator: return "generator";
    case Kind::keys: return "dict_keys";
    case Kind::values: return "dict_values";
    case Kind::items: return "dict_items";
    case Kind::range: return "range";
  }
  return "";
}

std::shared_ptr<const List> Iterable::take() {
  if (kind_ != Kind::generator) return items_;
  const std::size_t from = std::exchange(taken_, items_->items.size());
  if (from == 0) return items_;
  return make_list(
      Items(items_->items.begin() + static_cast<std::ptrdiff_t>(from), items_->items.end()), false);
}

std::optional<Value> Iterable::take_one() {
  if (taken_ == items_->items.size()) return std::nullopt;
  const std::size_t at = kind_ == Kind::generator ? taken_++ : 0;
  return items_->items[at];
}

Value generator(Items items) {
  return std::make_shared<Iterable>(Iterable::Kind::generator, std::move(items));
}

}  // namespace ebb::text::jinja
