// A template as the parser leaves it: statements and expressions. Immutable once made, so that any
// number of threads may render it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/chat/call.h"
#include "text/chat/frames.h"
#include "text/chat/operators.h"
#include "text/chat/value.h"

namespace ebb::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Literal {
  Value value;
};
struct Name {
  NameId id;
  // Jinja gives it a meaning that is not supported, unless the template assigns it.
  bool suspect = false;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  bool is_tuple;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {
  ExpressionPtr of;
  std::string name;
};
struct Subscript {
  ExpressionPtr of, index;
};
struct Slice {
  ExpressionPtr of, start, stop, step;  // null where left out
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
// A filter or a test. `input` is null for the filter of a block.
struct Apply {
  ExpressionPtr input;
  Function function;
  CallArguments arguments;
};
struct Not {
  ExpressionPtr operand;
};
struct Sign {
  ExpressionPtr operand;
  bool negative;
};
struct Compute {
  Arithmetic operation;
  ExpressionPtr left, right;
};
struct Concatenate {
  std::vector<ExpressionPtr> parts;
};
struct Both {
  ExpressionPtr left, right;
};
struct Either {
  ExpressionPtr left, right;
};
struct Compare {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Choose {
  ExpressionPtr condition, yes, no;  // no `no`: undefined
};

struct Expression {
  int line;
  int height;  // of the tree below it
  std::variant<Literal, Name, ListDisplay, DictDisplay, Attribute, Subscript, Slice, Call, Apply,
               Not, Sign, Compute, Concatenate, Both, Either, Compare, Choose>
      node;
};

struct Statement;
using Body = std::vector<Statement>;

// A body with variables of its own.
struct Block {
  Body body;
  Hidden hidden;
};

// What is assigned to: a name, an attribute of a namespace, or several in a row.
struct Target {
  NameId name = -1;
  std::string attribute;  // empty for a plain name
  std::vector<Target> items;
  bool is_tuple = false;
};

struct Text {
  std::string text;
};
struct Print {
  ExpressionPtr expression;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr condition;  // null where all items are visited
  Block body;
  Block otherwise;
  NameId loop;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  std::vector<Apply> filters;
  Block body;
};
struct MacroDefinition {
  std::string title;
  NameId name;
  std::vector<std::pair<std::string, NameId>> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  Block body;
};
// {% generation %}: what it holds is printed; what is set in it stays in it.
struct Generation {
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line;
  std::variant<Text, Print, If, For, Set, SetBlock, MacroDefinition, Generation, Break, Continue>
      node;
};

struct Template {
  Block body;
  std::map<std::string, NameId, std::less<>> names;
};

}  // namespace ebb::text::jinja
