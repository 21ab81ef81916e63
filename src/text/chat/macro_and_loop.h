// The two kinds of objects that run parts of the template again: macros and loops.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "text/chat/call.h"
#include "text/chat/evaluator.h"

namespace ebb::text::jinja {

class Evaluator::Macro : public Object {
 public:
  Macro(Evaluator& evaluator, const MacroDefinition& definition, ScopePtr around)
      : evaluator_(evaluator), definition_(definition), around_(std::move(around)) {}

  std::string_view type_name() const override { return "Macro"; }
  // What it prints.
  Value call(const Arguments& arguments, Budget& budget) override;
  // Lets go of its scope, which holds it in turn.
  void forget() { around_.reset(); }

 private:
  Evaluator& evaluator_;
  const MacroDefinition& definition_;
  ScopePtr around_;
};

// What `loop` is inside of a loop. Items are taken one by one, since a loop's condition may depend
// on what its body did before.
class Evaluator::Loop : public Object {
 public:
  Loop(Evaluator& evaluator, const For& statement, const Value& iterable, ScopePtr around);

  std::string_view type_name() const override { return "LoopContext"; }
  std::optional<Value> attribute(std::string_view name) override;

  // The next item; nothing where there is none.
  std::optional<Value> advance();

 private:
  std::optional<Value> take();  // from the items, past those that the condition refuses
  const std::optional<Value>& peek();
  std::int64_t length();

  Evaluator& evaluator_;
  const For& statement_;
  std::shared_ptr<const List> items_;
  ScopePtr around_;
  std::size_t at_ = 0;       // the next of `items_`
  std::int64_t index_ = -1;  // of the current item
  bool has_length_ = false;  // `items_` are those that are visited
  bool peeked_ = false;
  std::optional<Value> after_, current_, before_;
};

}  // namespace ebb::text::jinja
