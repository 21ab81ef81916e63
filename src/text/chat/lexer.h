// Splits a template into tokens: the text between tags, and the words inside them. The space that
// tags swallow (`{%-`, trim_blocks, lstrip_blocks) is gone afterwards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ebb::text::jinja {

struct Token {
  enum class Kind {
    data,
    print_begin,
    print_end,
    block_begin,
    block_end,
    name,
    text,
    integer,
    real,
    sign,
    end
  };
  Kind kind = Kind::end;
  int line = 1;
  std::string value;  // what stands there; of a text what it means

  bool is_sign(std::string_view sign) const { return kind == Kind::sign && value == sign; }
  bool is_name(std::string_view name) const { return kind == Kind::name && value == name; }
};

// What is wrong with a template before it runs, and where.
struct SyntaxFailure {
  int line;
  std::string message;
};

// The last token is an `end`. Throws SyntaxFailure.
std::vector<Token> tokenize(std::string_view source);

}  // namespace ebb::text::jinja
