#include "text/chat/parser.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "ebb/error.h"
#include "text/chat/budget.h"
#include "text/chat/expression_parser.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

using Kind = Token::Kind;

class Parser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  std::shared_ptr<const Template> run() && {
    auto parsed = std::make_shared<Template>();
    parsed->body.hidden = frames_.enter();
    parsed->body.body = body({});
    frames_.finish();
    parsed->names = std::move(names_);
    return parsed;
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  bool at_name_of(Names names) const {
    for (const std::string_view name : names)
      if (current().is_name(name)) return true;
    return false;
  }

  void expect_block_end() {
    if (current().kind != Kind::block_end) fail("expected '%}' at the end of the statement");
    next();
  }

  // Statements up to a tag with one of the names `ends`, which is then the current token; to the
  // end of the template where there are none.
  Body body(Names ends) {
    const Level level(*this);
    Body statements;
    while (true) {
      const int line = current().line;
      switch (current().kind) {
        case Kind::end:
          if (ends.size() > 0)
            fail(fmt::format("expected '{}' before the end of the template", *ends.begin()));
          return statements;
        case Kind::data: statements.push_back({line, Text{next().value}}); break;
        case Kind::print_begin:
          next();
          statements.push_back({line, Print{tuple()}});
          if (current().kind != Kind::print_end) fail("expected '}}' at the end of the expression");
          next();
          break;
        default:
          next();
          if (at_name_of(ends)) return statements;
          statement(statements);
          expect_block_end();
      }
    }
  }

  // A body in its tags: behind the opening one's words up to the name that ends it.
  Body block(Names ends) {
    skip_sign(":");
    expect_block_end();
    return body(ends);
  }

  void statement(Body& statements) {
    const Token tag = current();
    if (tag.kind != Kind::name) fail("expected the name of a statement behind '{%'");
    next();
    const auto add = [&](auto node) { statements.push_back({tag.line, std::move(node)}); };
    if (tag.value == "if")
      add(if_statement());
    else if (tag.value == "for")
      add(for_statement());
    else if (tag.value == "set")
      set_statement(add);
    else if (tag.value == "macro")
      add(macro_statement());
    else if (tag.value == "generation")
      add(generation_statement());
    else if (tag.value == "break" || tag.value == "continue")
      jump_statement(tag, add);
    else if (tag.value == "include" || tag.value == "import" || tag.value == "from" ||
             tag.value == "extends")
      other_template_statement(tag, add);
    else
      fail_at(tag.line, fmt::format("statement '{}' is not supported", tag.value));
  }

  template <class Add>
  void jump_statement(const Token& tag, const Add& add) {
    if (loops_ == 0) fail_at(tag.line, fmt::format("'{}' outside of a loop", tag.value));
    if (tag.value == "break")
      add(Break{});
    else
      add(Continue{});
  }

  // There is no other template, so such a statement fails where it runs; what it says is of no use.
  template <class Add>
  void other_template_statement(const Token& tag, const Add& add) {
    while (current().kind != Kind::block_end && current().kind != Kind::end) next();
    add(Print{unsupported(tag.line, fmt::format("statement '{}' is not supported", tag.value))});
  }

  If if_statement() {
    If result;
    while (true) {
      ExpressionPtr condition = tuple(false);
      frames_.enter_branch();
      result.branches.emplace_back(std::move(condition), block({"endif", "elif", "else"}));
      const bool more = current().is_name("elif");
      if (next().value == "else") {
        result.otherwise = block({"endif"});
        next();
      }
      frames_.leave_branch();
      if (!more) return result;
    }
  }

  For for_statement() {
    For loop;
    loop.loop = id_of("loop");
    const int line = current().line;
    loop.target = target(false);
    check_not_loop(loop.target, line);
    expect_name("in");
    loop.iterable = tuple(false);
    if (skip_name("if")) loop.condition = condition_of_loop(loop.target);
    if (current().is_name("recursive"))
      loop.iterable = unsupported(next().line, "'recursive' loops are not supported");
    ++loops_;
    ++loop_scopes_;
    loop.body.hidden = frames_.enter();
    frames_.receive(loop.loop);
    receive(loop.target);
    loop.body.body = block({"endfor", "else"});
    frames_.leave();
    --loops_;
    loop.otherwise.hidden = frames_.enter();
    if (next().value == "else") {
      loop.otherwise.body = block({"endfor"});
      next();
    }
    frames_.leave();
    --loop_scopes_;
    return loop;
  }

  ExpressionPtr condition_of_loop(const Target& target) {
    frames_.enter();
    receive(target);
    ExpressionPtr condition = expression();
    frames_.leave();
    return condition;
  }

  void receive(const Target& target) {
    if (!target.is_tuple) frames_.receive(target.name);
    for (const Target& item : target.items) receive(item);
  }

  // What a 'set' assigns, of which it was read before what it assigns.
  void mark_assigned(const Target& target) {
    if (!target.is_tuple && target.attribute.empty()) frames_.assign(target.name);
    if (!target.is_tuple && !target.attribute.empty()) frames_.read(target.name);
    for (const Target& item : target.items) mark_assigned(item);
  }

  void check_not_loop(const Target& target, int line) const {
    if (names_.contains("loop") && target.name == names_.find("loop")->second &&
        target.attribute.empty())
      fail_at(line, "'loop' cannot be assigned inside of a loop");
    for (const Target& item : target.items) check_not_loop(item, line);
  }

  template <class Add>
  void set_statement(const Add& add) {
    const int line = current().line;
    Target assigned = target(true);
    if (loop_scopes_ > 0) check_not_loop(assigned, line);
    if (skip_sign("=")) {
      ExpressionPtr value = tuple();
      mark_assigned(assigned);
      add(Set{std::move(assigned), std::move(value)});
      return;
    }
    mark_assigned(assigned);
    SetBlock set{std::move(assigned), {}, {}};
    while (current().is_sign("|")) set.filters.push_back(filter(nullptr));
    set.body = scoped_block("endset");
    add(std::move(set));
  }

  // A body that is a function in Jinja: no loop outside of it can be left from inside.
  Block scoped_block(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Block result;
    result.hidden = frames_.enter();
    result.body = block({end});
    frames_.leave();
    next();
    loops_ = loops;
    return result;
  }

  MacroDefinition macro_statement() {
    MacroDefinition macro;
    macro.title = expect_any_name();
    macro.name = assign(macro.title);
    frames_.assign(macro.name);
    macro.body.hidden = frames_.enter();
    expect_sign("(");
    while (!current().is_sign(")")) {
      if (!macro.parameters.empty()) expect_sign(",");
      const std::string name = expect_any_name();
      if (is_constant(name)) fail(fmt::format("'{}' cannot be assigned", name));
      macro.parameters.emplace_back(name, assign(name));
      frames_.receive(macro.parameters.back().second);
      if (skip_sign("="))
        macro.defaults.push_back(expression());
      else if (!macro.defaults.empty())
        fail("a parameter without a default behind one with a default");
    }
    expect_sign(")");
    ++macros_;
    const int loops = std::exchange(loops_, 0);
    macro.body.body = block({"endmacro"});
    next();
    loops_ = loops;
    --macros_;
    frames_.leave();
    return macro;
  }

  Generation generation_statement() { return {scoped_block("endgeneration")}; }

  static bool is_constant(std::string_view name) {
    for (const std::string_view constant : {"true", "True", "false", "False", "none", "None"})
      if (name == constant) return true;
    return false;
  }

  NameId assign(const std::string& name) { return id_of(name); }

  Target one_target(bool with_attributes) {
    const Level level(*this);
    if (skip_sign("(")) {
      Target inner = target(with_attributes);
      expect_sign(")");
      return inner;
    }
    Target single;
    const std::string name = expect_any_name();
    if (is_constant(name)) fail(fmt::format("'{}' cannot be assigned", name));
    if (with_attributes && skip_sign(".")) {
      single.name = id_of(name);
      single.attribute = expect_any_name();
    } else {
      single.name = assign(name);
    }
    return single;
  }

  Target target(bool with_attributes) {
    Target first = one_target(with_attributes);
    if (!current().is_sign(",")) return first;
    Target all;
    all.is_tuple = true;
    all.items.push_back(std::move(first));
    while (skip_sign(",")) {
      if (current().is_sign(")")) break;
      all.items.push_back(one_target(with_attributes));
    }
    return all;
  }

  int loops_ = 0;        // that 'break' could leave
  int loop_scopes_ = 0;  // in which 'loop' means the loop
};

}  // namespace

std::shared_ptr<const Template> parse(std::string_view source, std::string_view where) {
  if (source.size() > kLongestTemplate)
    throw FormatError(
        fmt::format("{}: the template is longer than {} MiB", where, kLongestTemplate >> 20));
  if (!is_valid_utf8(source))
    throw FormatError(fmt::format("{}: the template is not UTF-8", where));
  try {
    return Parser(tokenize(source)).run();
  } catch (const SyntaxFailure& failure) {
    throw FormatError(fmt::format("{}: line {}: {}", where, failure.line,
                                  printable(failure.message, kLongestFailure)));
  }
}

}  // namespace ebb::text::jinja
