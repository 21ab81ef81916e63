#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "text/chat/budget.h"
#include "text/chat/filters.h"
#include "text/chat/operators.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

// Digits without the single underscores that Python allows between them; nothing where one is
// elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]));
    };
    if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1)) return std::nullopt;
  }
  return out;
}

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  auto digits = without_underscores(strip_left(strip_right(text)));
  if (!digits) return std::nullopt;
  std::string_view rest = *digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const auto has_prefix = [&](char small, char big) {
    return rest.size() > 2 && rest[0] == '0' && (rest[1] == small || rest[1] == big);
  };
  if ((base == 16 && has_prefix('x', 'X')) || (base == 8 && has_prefix('o', 'O')) ||
      (base == 2 && has_prefix('b', 'B')))
    rest.remove_prefix(2);
  if (rest.empty() || rest[0] == '-') return std::nullopt;
  const std::string signed_digits = (negative ? "-" : "") + std::string(rest);
  std::int64_t value = 0;
  const auto [end, problem] =
      std::from_chars(signed_digits.data(), signed_digits.data() + signed_digits.size(), value,
                      static_cast<int>(base));
  if (end != signed_digits.data() + signed_digits.size()) return std::nullopt;
  if (problem == std::errc::result_out_of_range) throw Failure("an integer does not fit 64 bits");
  if (problem != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> parse_float(std::string_view text) {
  const auto digits = without_underscores(strip_left(strip_right(text)));
  if (!digits || digits->empty()) return std::nullopt;
  std::string_view rest = *digits;
  if (rest[0] == '+') rest.remove_prefix(1);
  if (rest.empty() || (rest[0] == '-' && digits->front() == '+')) return std::nullopt;
  double value = 0;
  const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || rest.find('(') != std::string_view::npos)
    return std::nullopt;
  // Python rounds what is too large or too small to infinity or nothing.
  if (problem == std::errc::result_out_of_range)
    return std::strtod(std::string(rest).c_str(), nullptr);
  if (problem != std::errc()) return std::nullopt;
  return value;
}

std::int64_t truncate(double number) {
  if (std::abs(number) >= 9.2e18) throw Failure("an integer does not fit 64 bits");
  return static_cast<std::int64_t>(number);
}

Value to_integer(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("int", arguments, {"default", "base"});
  self.require_defined();
  const Value otherwise = bound[0] ? *bound[0] : Value(0);
  if (const auto whole = self.whole()) return *whole;
  std::optional<double> real;
  if (self.if_float()) real = *self.if_float();
  if (const auto* text = self.if_string()) {
    budget.spend_bytes(text->size());
    const std::int64_t base = bound.whole(1, 10);
    if (base < 2 || base > 36) throw Failure("'int' needs a base from 2 to 36");
    if (const auto number = parse_integer(*text, base)) return *number;
    real = parse_float(*text);
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  return truncate(*real);
}

Value to_float(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("float", arguments, {"default"});
  self.require_defined();
  if (self.is_number()) return self.real();
  if (const auto* text = self.if_string()) {
    budget.spend_bytes(text->size());
    if (const auto number = parse_float(*text)) return *number;
  }
  return bound[0] ? *bound[0] : Value(0.0);
}

Value absolute(const Value& self, const Arguments& arguments, Budget&) {
  const Bound bound("abs", arguments, {});
  self.require_defined();
  if (const double* number = self.if_float()) return std::fabs(*number);
  if (const auto whole = self.whole()) return *whole < 0 ? negate(*whole) : Value(*whole);
  throw Failure(fmt::format("'abs' needs a number, not '{}'", self.type_name()));
}

// To the nearest, and to the even of two: of the exact binary value, as the C library prints it.
double round_to(double number, int digits) {
  if (!std::isfinite(number)) return number;
  const std::string text = fmt::format("{:.{}f}", number, digits);
  // Unlike strtod it knows no locale.
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Value round(const Value& self, const Arguments& arguments, Budget&) {
  const Bound bound("round", arguments, {"precision", "method"});
  self.require_defined();
  const std::int64_t precision = bound.whole(0, 0);
  const std::string method = bound.text(1) ? *bound.text(1) : "common";
  if (precision < 0 || precision > 20) throw Failure("'round' is supported for 0 to 20 digits");
  if (method != "common" && method != "ceil" && method != "floor")
    throw Failure("'round' knows the methods common, ceil and floor");
  if (method == "common") {
    if (const auto whole = self.whole()) return *whole;
    return round_to(self.real(), static_cast<int>(precision));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = self.real() * scale;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

}  // namespace

Function find_number_filter(std::string_view name) {
  if (name == "abs") return absolute;
  if (name == "float") return to_float;
  if (name == "int") return to_integer;
  if (name == "round") return round;
  return nullptr;
}

}  // namespace ebb::text::jinja
