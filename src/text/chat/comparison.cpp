#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/to_size.h"
#include "text/chat/budget.h"
#include "text/chat/operators.h"

namespace ebb::text::jinja {
namespace {

// -1, 0, 1; 2 where a NaN has no order. Exact, where a conversion of the integer would round.
int order(const Value& left, const Value& right) {
  if (!left.if_float() && !right.if_float()) {
    const std::int64_t a = *left.whole(), b = *right.whole();
    return a < b ? -1 : a > b;
  }
  const auto a = left.if_float() ? static_cast<long double>(*left.if_float())
                                 : static_cast<long double>(*left.whole());
  const auto b = right.if_float() ? static_cast<long double>(*right.if_float())
                                  : static_cast<long double>(*right.whole());
  if (std::isnan(a) || std::isnan(b)) return 2;
  return a < b ? -1 : a > b;
}

bool equal_items(const Items& left, const Items& right, Budget& budget) {
  if (left.size() != right.size()) return false;
  budget.spend(left.size());
  return std::equal(left.begin(), left.end(), right.begin(),
                    [&](const Value& a, const Value& b) { return equals(a, b, budget); });
}

bool equal_dicts(const Dict& left, const Dict& right, Budget& budget) {
  if (left.entries.size() != right.entries.size()) return false;
  budget.spend(left.entries.size());
  for (const auto& [key, value] : left.entries) {
    const Value* other = right.find(key, budget);
    if (!other || !equals(value, *other, budget)) return false;
  }
  return true;
}

// The views of dicts and ranges compare by rules of their own, which no template asks for.
void refuse_views(const Value& value) {
  if (const auto* iterable = value.if_object<Iterable>(); iterable && iterable->has_length())
    throw Failure(fmt::format("comparing a '{}' is not supported", iterable->type_name()));
}

bool less_items(const Items& left, const Items& right, Budget& budget) {
  const std::size_t shared = std::min(left.size(), right.size());
  budget.spend(shared);
  for (std::size_t i = 0; i < shared; ++i)
    if (!equals(left[i], right[i], budget)) return is_less(left[i], right[i], budget);
  return left.size() < right.size();
}

}  // namespace

std::size_t find_text(std::string_view text, std::string_view wanted, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  if (!found) return std::string_view::npos;
  return to_size(static_cast<const char*>(found) - text.data());
}

bool equals(const Value& left, const Value& right, Budget& budget) {
  if (left.is_number() && right.is_number()) return order(left, right) == 0;
  if (const auto* a = left.if_string(), *b = right.if_string(); a && b) {
    if (a->size() == b->size()) budget.spend_bytes(a->size());
    return *a == *b;
  }
  if (const auto a = left.if_list(), b = right.if_list(); a && b)
    return a->is_tuple == b->is_tuple && equal_items(a->items, b->items, budget);
  if (const auto* a = left.if_dict(), *b = right.if_dict(); a && b)
    return equal_dicts(*a, *b, budget);
  refuse_views(left);
  refuse_views(right);
  return (left.is_none() && right.is_none()) || left.same_object(right);
}

bool is_less(const Value& left, const Value& right, Budget& budget) {
  if (left.is_number() && right.is_number()) return order(left, right) == -1;
  if (const auto* a = left.if_string(), *b = right.if_string(); a && b) {
    // The order of UTF-8's bytes is that of code points.
    budget.spend_bytes(std::min(a->size(), b->size()));
    return *a < *b;
  }
  if (const auto a = left.if_list(), b = right.if_list(); a && b && a->is_tuple == b->is_tuple)
    return less_items(a->items, b->items, budget);
  left.require_defined();
  right.require_defined();
  throw Failure(fmt::format("'{}' and '{}' have no order", left.type_name(), right.type_name()));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (const auto* text = container.if_string()) {
    const auto* wanted = item.if_string();
    if (!wanted)
      throw Failure(fmt::format("'in <string>' needs a string, not '{}'", item.type_name()));
    budget.spend_bytes(text->size());
    return find_text(*text, *wanted) != std::string_view::npos;
  }
  if (const auto* dict = container.if_dict()) {
    require_hashable(item, budget);
    return dict->find(item, budget) != nullptr;
  }
  const auto list = iterate(container, budget);
  budget.spend(list->items.size());
  return std::any_of(list->items.begin(), list->items.end(),
                     [&](const Value& each) { return equals(each, item, budget); });
}

bool compare(Comparison comparison, const Value& left, const Value& right, Budget& budget) {
  switch (comparison) {
    case Comparison::equal: return equals(left, right, budget);
    case Comparison::unequal: return !equals(left, right, budget);
    case Comparison::less: return is_less(left, right, budget);
    case Comparison::greater: return is_less(right, left, budget);
    case Comparison::in: return contains(right, left, budget);
    case Comparison::not_in: return !contains(right, left, budget);
    case Comparison::less_equal:
    case Comparison::greater_equal: break;
  }
  // Not the negation of the opposite: with a NaN both are false.
  const bool swapped = comparison == Comparison::greater_equal;
  const Value &low = swapped ? right : left, &high = swapped ? left : right;
  return is_less(low, high, budget) || equals(low, high, budget);
}

void require_hashable(const Value& value, Budget& budget) {
  const auto list = value.if_list();
  if (value.if_dict() || (list && !list->is_tuple))
    throw Failure(fmt::format("unhashable type: '{}'", value.type_name()));
  if (!list) return;
  budget.spend(list->items.size());
  for (const Value& item : list->items) require_hashable(item, budget);
}

}  // namespace ebb::text::jinja
