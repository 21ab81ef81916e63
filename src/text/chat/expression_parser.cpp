#include "text/chat/expression_parser.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>

#include "text/chat/budget.h"
#include "text/chat/filters.h"
#include "text/chat/predicates.h"

namespace ebb::text::jinja {
namespace {

using Kind = Token::Kind;

int height(const ExpressionPtr& expression) { return expression ? expression->height : 0; }

int height(const std::vector<ExpressionPtr>& expressions) {
  int tallest = 0;
  for (const auto& expression : expressions) tallest = std::max(tallest, height(expression));
  return tallest;
}

int height(const CallArguments& arguments) {
  int tallest = height(arguments.positional);
  for (const auto& [name, value] : arguments.named) tallest = std::max(tallest, height(value));
  return tallest;
}

template <class... Children>
int tallest(const Children&... children) {
  return std::max({0, height(children)...});
}

std::string described(const Token& token) {
  switch (token.kind) {
    case Kind::data: return "text";
    case Kind::print_begin: return "'{{'";
    case Kind::print_end: return "'}}'";
    case Kind::block_begin: return "'{%'";
    case Kind::block_end: return "'%}'";
    case Kind::text: return "a string";
    case Kind::end: return "the end of the template";
    default: return fmt::format("'{}'", token.value);
  }
}

bool is_suspect(std::string_view name, bool in_macro) {
  for (const std::string_view global : {"lipsum", "cycler", "joiner", "self"})
    if (name == global) return true;
  // 'caller' is there only where a block is passed, which no template can do here.
  for (const std::string_view special : {"varargs", "kwargs"})
    if (name == special) return in_macro;
  return false;
}

}  // namespace

ExpressionParser::Level::Level(ExpressionParser& parser) : parser_(parser) {
  if (parser_.level_ >= kDeepestSyntax)
    parser_.fail(fmt::format("nested deeper than {} levels", kDeepestSyntax));
  ++parser_.level_;
}

template <class Node>
ExpressionPtr ExpressionParser::make(int line, int below, Node node) {
  if (below >= kTallestExpression)
    fail_at(line, fmt::format("an expression of more than {} parts in a row", kTallestExpression));
  return std::make_unique<const Expression>(Expression{line, below + 1, std::move(node)});
}

bool ExpressionParser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_sign(std::string_view sign) {
  if (!current().is_sign(sign)) return false;
  next();
  return true;
}

void ExpressionParser::expect_sign(std::string_view sign) {
  if (!skip_sign(sign)) fail(fmt::format("expected '{}', found {}", sign, described(current())));
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail(fmt::format("expected '{}', found {}", name, described(current())));
}

std::string ExpressionParser::expect_any_name() {
  if (current().kind != Kind::name)
    fail(fmt::format("expected a name, found {}", described(current())));
  return next().value;
}

NameId ExpressionParser::id_of(std::string_view name) {
  const auto found = names_.find(name);
  if (found != names_.end()) return found->second;
  if (names_.size() == kMostNames) fail(fmt::format("more than {} names", kMostNames));
  const auto id = static_cast<NameId>(names_.size());
  names_.emplace(name, id);
  return id;
}

ExpressionPtr ExpressionParser::unsupported(int line, const std::string& message) {
  return make(line, 1, Apply{make(line, 0, Literal{}), refuse, message_of(line, message)});
}

CallArguments ExpressionParser::message_of(int line, const std::string& message) {
  CallArguments given;
  given.positional.push_back(make(line, 0, Literal{message}));
  return given;
}

ExpressionPtr ExpressionParser::expression(bool with_choice) {
  const Level level(*this);
  return with_choice ? choice() : either();
}

ExpressionPtr ExpressionParser::tuple(bool with_choice, bool in_brackets) {
  const int line = current().line;
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  const auto at_end = [&] {
    return current().kind == Kind::print_end || current().kind == Kind::block_end ||
           current().is_sign(")");
  };
  while (!at_end()) {
    items.push_back(expression(with_choice));
    if (!skip_sign(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_brackets)
    fail(fmt::format("expected an expression, found {}", described(current())));
  const int below = tallest(items);
  return make(line, below, ListDisplay{std::move(items), true});
}

ExpressionPtr ExpressionParser::choice() {
  int line = current().line;
  ExpressionPtr value = either();
  while (skip_name("if")) {
    ExpressionPtr condition = either();
    ExpressionPtr otherwise;
    if (skip_name("else")) {
      const Level level(*this);
      otherwise = choice();
    }
    const int below = tallest(condition, value, otherwise);
    value = make(line, below, Choose{std::move(condition), std::move(value), std::move(otherwise)});
    line = current().line;
  }
  return value;
}

ExpressionPtr ExpressionParser::either() {
  int line = current().line;
  ExpressionPtr left = both();
  while (skip_name("or")) {
    ExpressionPtr right = both();
    const int below = tallest(left, right);
    left = make(line, below, Either{std::move(left), std::move(right)});
    line = current().line;
  }
  return left;
}

ExpressionPtr ExpressionParser::both() {
  int line = current().line;
  ExpressionPtr left = negation();
  while (skip_name("and")) {
    ExpressionPtr right = negation();
    const int below = tallest(left, right);
    left = make(line, below, Both{std::move(left), std::move(right)});
    line = current().line;
  }
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  const int line = current().line;
  if (!skip_name("not")) return comparison();
  const Level level(*this);
  ExpressionPtr operand = negation();
  const int below = tallest(operand);
  return make(line, below, Not{std::move(operand)});
}

std::optional<Comparison> ExpressionParser::comparison_sign() {
  constexpr std::pair<std::string_view, Comparison> signs[] = {
      {"==", Comparison::equal},  {"!=", Comparison::unequal},
      {"<", Comparison::less},    {"<=", Comparison::less_equal},
      {">", Comparison::greater}, {">=", Comparison::greater_equal}};
  for (const auto& [sign, comparison] : signs)
    if (skip_sign(sign)) return comparison;
  if (skip_name("in")) return Comparison::in;
  if (!current().is_name("not") || !ahead().is_name("in")) return std::nullopt;
  next();
  next();
  return Comparison::not_in;
}

ExpressionPtr ExpressionParser::comparison() {
  const int line = current().line;
  Compare compare{sum(), {}};
  int below = tallest(compare.first);
  while (const auto sign = comparison_sign()) {
    compare.rest.emplace_back(*sign, sum());
    below = std::max(below, tallest(compare.rest.back().second));
  }
  if (compare.rest.empty()) return std::move(compare.first);
  return make(line, below, std::move(compare));
}

ExpressionPtr ExpressionParser::sum() {
  int line = current().line;
  ExpressionPtr left = concatenation();
  while (current().is_sign("+") || current().is_sign("-")) {
    const auto operation = next().value == "+" ? Arithmetic::add : Arithmetic::subtract;
    ExpressionPtr right = concatenation();
    const int below = tallest(left, right);
    left = make(line, below, Compute{operation, std::move(left), std::move(right)});
    line = current().line;
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  const int line = current().line;
  std::vector<ExpressionPtr> parts;
  do parts.push_back(product());
  while (skip_sign("~"));
  if (parts.size() == 1) return std::move(parts[0]);
  const int below = tallest(parts);
  return make(line, below, Concatenate{std::move(parts)});
}

ExpressionPtr ExpressionParser::product() {
  constexpr std::pair<std::string_view, Arithmetic> signs[] = {{"*", Arithmetic::multiply},
                                                               {"/", Arithmetic::divide},
                                                               {"//", Arithmetic::floor_divide},
                                                               {"%", Arithmetic::modulo}};
  int line = current().line;
  ExpressionPtr left = unary();
  while (true) {
    if (current().is_sign("**")) {
      next();
      unary();
      left = unsupported(line, "operator '**' is not supported");
      continue;
    }
    const auto* found = std::find_if(std::begin(signs), std::end(signs), [&](const auto& entry) {
      return current().is_sign(entry.first);
    });
    if (found == std::end(signs)) return left;
    next();
    ExpressionPtr right = unary();
    const int below = tallest(left, right);
    left = make(line, below, Compute{found->second, std::move(left), std::move(right)});
    line = current().line;
  }
}

ExpressionPtr ExpressionParser::unary(bool with_filter) {
  const int line = current().line;
  ExpressionPtr value;
  if (current().is_sign("-") || current().is_sign("+")) {
    const Level level(*this);
    const bool negative = next().value == "-";
    ExpressionPtr operand = unary(false);
    const int below = tallest(operand);
    value = make(line, below, Sign{std::move(operand), negative});
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filter ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  const Token& token = current();
  const int line = token.line;
  switch (token.kind) {
    case Kind::name: {
      const std::string name = next().value;
      if (name == "true" || name == "True") return make(line, 0, Literal{true});
      if (name == "false" || name == "False") return make(line, 0, Literal{false});
      if (name == "none" || name == "None") return make(line, 0, Literal{});
      frames_.read(id_of(name));
      return make(line, 0, Name{id_of(name), is_suspect(name, macros_ > 0)});
    }
    case Kind::text: {
      std::string text;
      while (current().kind == Kind::text) text += next().value;
      return make(line, 0, Literal{std::move(text)});
    }
    case Kind::integer:
    case Kind::real: return number();
    default: break;
  }
  if (token.is_sign("[")) return list();
  if (token.is_sign("{")) return dict();
  if (!token.is_sign("(")) fail(fmt::format("unexpected {}", described(token)));
  next();
  ExpressionPtr inner = tuple(true, true);
  expect_sign(")");
  return inner;
}

ExpressionPtr ExpressionParser::number() {
  const Token token = next();
  if (token.kind == Kind::real) {
    // Unlike strtod it knows no locale. What is too large is infinity, as in Python, and what is
    // too small is nothing.
    const std::string& text = token.value;
    const bool tiny = text.find('-') != std::string::npos;
    double value = tiny ? 0.0 : std::numeric_limits<double>::infinity();
    std::from_chars(text.data(), text.data() + text.size(), value);
    return make(token.line, 0, Literal{value});
  }
  const char letter = token.value.size() > 1 ? static_cast<char>(token.value[1] | 0x20) : '\0';
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  errno = 0;
  const long long value = std::strtoll(token.value.c_str() + (base == 10 ? 0 : 2), nullptr, base);
  if (errno == ERANGE) fail_at(token.line, "an integer does not fit 64 bits");
  return make(token.line, 0, Literal{value});
}

ExpressionPtr ExpressionParser::list() {
  const int line = next().line;
  std::vector<ExpressionPtr> items;
  while (!current().is_sign("]")) {
    items.push_back(expression());
    if (!skip_sign(",")) break;
  }
  expect_sign("]");
  const int below = tallest(items);
  return make(line, below, ListDisplay{std::move(items), false});
}

ExpressionPtr ExpressionParser::dict() {
  const int line = next().line;
  DictDisplay dict;
  int below = 0;
  while (!current().is_sign("}")) {
    ExpressionPtr key = expression();
    expect_sign(":");
    ExpressionPtr value = expression();
    below = std::max(below, tallest(key, value));
    dict.entries.emplace_back(std::move(key), std::move(value));
    if (!skip_sign(",")) break;
  }
  expect_sign("}");
  return make(line, below, std::move(dict));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr of) {
  while (true) {
    if (current().is_sign("."))
      of = attribute(std::move(of));
    else if (current().is_sign("["))
      of = subscript(std::move(of));
    else if (current().is_sign("("))
      of = call(std::move(of));
    else
      return of;
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr of) {
  while (true) {
    if (current().is_sign("|")) {
      const int line = current().line;
      Apply applied = filter(std::move(of));
      const int below = std::max(tallest(applied.input), height(applied.arguments));
      of = make(line, below, std::move(applied));
    } else if (current().is_name("is")) {
      of = test(std::move(of));
    } else if (current().is_sign("(")) {
      of = call(std::move(of));
    } else {
      return of;
    }
  }
}

ExpressionPtr ExpressionParser::attribute(ExpressionPtr of) {
  const int line = next().line;
  const int below = tallest(of);
  if (current().kind == Kind::integer) {
    ExpressionPtr index = number();
    return make(line, below, Subscript{std::move(of), std::move(index)});
  }
  std::string name = expect_any_name();
  const auto* variable = std::get_if<Name>(&of->node);
  if (variable && variable->id == id_of("loop") && name == "changed")
    return unsupported(line, "'loop.changed' is not supported");
  return make(line, below, Attribute{std::move(of), std::move(name)});
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr of) {
  const int line = next().line;
  ExpressionPtr bounds[3];
  int colons = 0;
  while (!current().is_sign("]")) {
    if (current().is_sign(",")) fail("several subscripts in one bracket are not supported");
    if (current().is_sign(":")) {
      if (++colons > 2) fail("unexpected ':'");
      next();
    } else if (bounds[colons]) {
      fail(fmt::format("unexpected {}", described(current())));
    } else {
      bounds[colons] = expression();
    }
  }
  next();
  const int below = tallest(of, bounds[0], bounds[1], bounds[2]);
  if (colons > 0)
    return make(
        line, below,
        Slice{std::move(of), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])});
  if (!bounds[0]) fail_at(line, "expected an expression between '[' and ']'");
  return make(line, below, Subscript{std::move(of), std::move(bounds[0])});
}

ExpressionPtr ExpressionParser::call(ExpressionPtr callee) {
  const int line = current().line;
  CallArguments given = arguments();
  const int below = tallest(callee, given);
  return make(line, below, Call{std::move(callee), std::move(given)});
}

CallArguments ExpressionParser::arguments() {
  CallArguments given;
  expect_sign("(");
  while (!current().is_sign(")")) {
    if (current().is_sign("*") || current().is_sign("**")) {
      const Token sign = next();
      expression();
      given.positional.push_back(
          unsupported(sign.line, fmt::format("arguments with '{}' are not supported", sign.value)));
    } else if (current().kind == Kind::name && ahead().is_sign("=")) {
      std::string name = next().value;
      next();
      for (const auto& [other, value] : given.named)
        if (other == name) fail(fmt::format("argument '{}' is given twice", name));
      given.named.emplace_back(std::move(name), expression());
    } else {
      if (!given.named.empty()) fail("an argument without a name behind one with a name");
      given.positional.push_back(expression());
    }
    if (!skip_sign(",")) break;
  }
  expect_sign(")");
  return given;
}

Apply ExpressionParser::filter(ExpressionPtr input) {
  expect_sign("|");
  const int line = current().line;
  std::string name = expect_any_name();
  while (skip_sign(".")) name += "." + expect_any_name();
  const Function function = find_filter(name);
  CallArguments given;
  if (current().is_sign("(")) given = arguments();
  if (!function) {
    return {std::move(input), refuse,
            message_of(line, fmt::format("filter '{}' is not supported", name))};
  }
  return {std::move(input), function, std::move(given)};
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  const int line = next().line;
  const bool negated = skip_name("not");
  const int name_line = current().line;
  std::string name = expect_any_name();
  while (skip_sign(".")) name += "." + expect_any_name();
  const Function function = find_test(name);
  CallArguments given;
  const Token& token = current();
  const bool begins_value = token.kind == Kind::name || token.kind == Kind::text ||
                            token.kind == Kind::integer || token.kind == Kind::real ||
                            token.is_sign("[") || token.is_sign("{");
  if (token.is_sign("(")) {
    given = arguments();
  } else if (begins_value && !token.is_name("else") && !token.is_name("or") &&
             !token.is_name("and")) {
    if (token.is_name("is")) fail("tests cannot be chained with 'is'");
    given.positional.push_back(postfix(primary()));
  }
  if (!function) {
    return unsupported(name_line, fmt::format("test '{}' is not supported", name));
  }
  const int below = std::max(tallest(input), height(given));
  ExpressionPtr result = make(line, below, Apply{std::move(input), function, std::move(given)});
  if (!negated) return result;
  return make(line, below + 1, Not{std::move(result)});
}

}  // namespace ebb::text::jinja
