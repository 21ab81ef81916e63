#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/to_size.h"
#include "text/chat/budget.h"
#include "text/chat/operators.h"

namespace ebb::text::jinja {
namespace {

constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%"};

[[noreturn]] void refuse(Arithmetic operation, const Value& left, const Value& right) {
  if (operation == Arithmetic::modulo && left.if_string())
    throw Failure("formatting strings with '%' is not supported");
  left.require_defined();
  right.require_defined();
  const std::string_view sign = kSigns[static_cast<int>(operation)];
  throw Failure(fmt::format("'{}' and '{}' cannot be combined with '{}'", left.type_name(),
                            right.type_name(), sign));
}

Value checked(bool overflow, std::int64_t result) {
  if (overflow) throw Failure("an integer does not fit 64 bits");
  return result;
}

// Rounded down, and a remainder with the sign of the divisor, as Python has them.
Value divide_integers(bool want_remainder, std::int64_t left, std::int64_t right) {
  if (right == 0) throw Failure("division by zero");
  if (right == -1) {
    if (want_remainder) return 0;
    std::int64_t result = 0;
    const bool overflow = __builtin_sub_overflow(std::int64_t{0}, left, &result);
    return checked(overflow, result);
  }
  const std::int64_t remainder = left % right;
  const bool adjust = remainder != 0 && (remainder < 0) != (right < 0);
  if (want_remainder) return adjust ? remainder + right : remainder;
  return left / right - (adjust ? 1 : 0);
}

Value compute_integers(Arithmetic operation, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (operation) {
    case Arithmetic::add: {
      const bool overflow = __builtin_add_overflow(left, right, &result);
      return checked(overflow, result);
    }
    case Arithmetic::subtract: {
      const bool overflow = __builtin_sub_overflow(left, right, &result);
      return checked(overflow, result);
    }
    case Arithmetic::multiply: {
      const bool overflow = __builtin_mul_overflow(left, right, &result);
      return checked(overflow, result);
    }
    case Arithmetic::divide:
      if (right == 0) throw Failure("division by zero");
      return static_cast<double>(left) / static_cast<double>(right);
    case Arithmetic::floor_divide: return divide_integers(false, left, right);
    case Arithmetic::modulo: return divide_integers(true, left, right);
  }
  return {};
}

Value compute_floats(Arithmetic operation, double left, double right) {
  switch (operation) {
    case Arithmetic::add: return left + right;
    case Arithmetic::subtract: return left - right;
    case Arithmetic::multiply: return left * right;
    default: break;
  }
  if (right == 0) throw Failure("division by zero");
  if (operation == Arithmetic::divide) return left / right;
  double remainder = std::fmod(left, right);
  double quotient = (left - remainder) / right;
  if (remainder == 0) {
    remainder = std::copysign(0.0, right);
  } else if ((remainder < 0) != (right < 0)) {
    remainder += right;
    quotient -= 1;
  }
  if (operation == Arithmetic::modulo) return remainder;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value repeat(const Value& value, std::int64_t times, Budget& budget) {
  const auto count = to_size(std::max<std::int64_t>(times, 0));
  if (const auto* text = value.if_string()) {
    if (text->empty()) return value;
    const bool countable = count <= std::numeric_limits<std::size_t>::max() / text->size();
    budget.spend_text(countable ? count * text->size() : count);
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += *text;
    return out;
  }
  const auto list = value.if_list();
  const std::size_t size = list->items.size();
  budget.spend_list(size == 0 ? 0 : count > kLongestList ? count : count * size);
  Items items;
  if (size > 0)
    for (std::size_t i = 0; i < count; ++i)
      items.insert(items.end(), list->items.begin(), list->items.end());
  return list->is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

Value concatenate(const List& left, const List& right, Budget& budget) {
  budget.spend_list(left.items.size() + right.items.size());
  Items items = left.items;
  items.insert(items.end(), right.items.begin(), right.items.end());
  return left.is_tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
}

std::string_view escape_of(char c) {
  switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '\'': return "&#39;";
    case '"': return "&#34;";
    default: return {};
  }
}

// What markup does with text that is not. Counted before it is made, as it may be five times as
// long.
std::string escaped(const Value& value, Budget& budget) {
  const std::string& text = *value.if_string();
  if (value.is_safe()) return text;
  std::size_t size = 0;
  for (const char c : text) size += std::max<std::size_t>(escape_of(c).size(), 1);
  budget.spend_text(size);
  std::string out;
  out.reserve(size);
  for (const char c : text) {
    const std::string_view escape = escape_of(c);
    if (escape.empty()) {
      out += c;
    } else {
      out += escape;
    }
  }
  return out;
}

}  // namespace

Value compute(Arithmetic operation, const Value& left, const Value& right, Budget& budget) {
  if (left.is_number() && right.is_number()) {
    if (left.if_float() || right.if_float())
      return compute_floats(operation, left.real(), right.real());
    return compute_integers(operation, *left.whole(), *right.whole());
  }
  if (operation == Arithmetic::add) {
    if (left.if_string() && right.if_string()) {
      budget.spend_text(left.if_string()->size() + right.if_string()->size());
      if (left.is_safe() || right.is_safe()) {
        return Value::safe(escaped(left, budget) + escaped(right, budget));
      }
      return *left.if_string() + *right.if_string();
    }
    const auto first = left.if_list();
    const auto second = right.if_list();
    if (first && second && first->is_tuple == second->is_tuple)
      return concatenate(*first, *second, budget);
  }
  if (operation == Arithmetic::multiply) {
    if ((left.if_string() || left.if_list()) && right.whole())
      return repeat(left, *right.whole(), budget);
    if ((right.if_string() || right.if_list()) && left.whole())
      return repeat(right, *left.whole(), budget);
  }
  refuse(operation, left, right);
}

Value negate(const Value& value) {
  if (const double* number = value.if_float()) return -*number;
  if (const auto number = value.whole()) return compute_integers(Arithmetic::subtract, 0, *number);
  value.require_defined();
  throw Failure(fmt::format("'{}' has no negative", value.type_name()));
}

}  // namespace ebb::text::jinja
