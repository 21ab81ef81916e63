// Reads expressions from tokens. The statements' parser is built on it.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/lexer.h"
#include "text/chat/syntax.h"

namespace ebb::text::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool skip_name(std::string_view name);
  bool skip_sign(std::string_view sign);
  void expect_sign(std::string_view sign);
  void expect_name(std::string_view name);
  std::string expect_any_name();
  [[noreturn]] void fail(std::string message) const { fail_at(current().line, std::move(message)); }
  [[noreturn]] static void fail_at(int line, std::string message) {
    throw SyntaxFailure{line, std::move(message)};
  }

  ExpressionPtr expression(bool with_choice = true);
  // One expression, or several with commas between them; in brackets also none.
  ExpressionPtr tuple(bool with_choice = true, bool in_brackets = false);
  // `| name(...)`, with the bar at hand.
  Apply filter(ExpressionPtr input);
  // What is read and not supported: it fails with the message where it runs, and nowhere else, as
  // templates ask for much in branches that no plain conversation takes.
  ExpressionPtr unsupported(int line, const std::string& message);

  NameId id_of(std::string_view name);

  // A level of brackets, blocks, conditions; as long as it lives.
  class Level {
   public:
    explicit Level(ExpressionParser& parser);
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    ExpressionParser& parser_;
  };

  std::map<std::string, NameId, std::less<>> names_;
  int macros_ = 0;  // that are open
  Frames frames_;

 private:
  // `below` is the height of the tallest child.
  template <class Node>
  ExpressionPtr make(int line, int below, Node node);

  ExpressionPtr choice();
  ExpressionPtr either();
  ExpressionPtr both();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr unary(bool with_filter = true);
  ExpressionPtr primary();
  ExpressionPtr number();
  ExpressionPtr list();
  ExpressionPtr dict();
  ExpressionPtr postfix(ExpressionPtr of);
  ExpressionPtr filters_and_tests(ExpressionPtr of);
  ExpressionPtr attribute(ExpressionPtr of);
  ExpressionPtr subscript(ExpressionPtr of);
  ExpressionPtr call(ExpressionPtr callee);
  ExpressionPtr test(ExpressionPtr input);
  CallArguments arguments();
  std::optional<Comparison> comparison_sign();
  CallArguments message_of(int line, const std::string& message);

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int level_ = 0;
};

}  // namespace ebb::text::jinja
