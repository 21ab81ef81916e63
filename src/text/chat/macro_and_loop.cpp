#include "text/chat/macro_and_loop.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/in_quotes.h"
#include "base/to_size.h"

namespace ebb::text::jinja {
namespace {

// loop.cycle(a, b, c): the one whose turn it is.
class Cycle : public Object {
 public:
  explicit Cycle(std::int64_t index) : index_(to_size(index)) {}
  std::string_view type_name() const override { return "method"; }
  Value call(const Arguments& arguments, Budget&) override {
    if (arguments.positional.empty() || !arguments.named.empty())
      throw Failure("'loop.cycle' needs items without names");
    return arguments.positional[index_ % arguments.positional.size()];
  }

 private:
  std::size_t index_;
};

}  // namespace

Value Evaluator::Macro::call(const Arguments& arguments, Budget&) {
  const auto& parameters = definition_.parameters;
  if (!around_) throw Failure("a macro is called after its end");
  if (arguments.positional.size() > parameters.size())
    throw Failure(
        fmt::format("macro '{}' takes at most {} arguments", definition_.title, parameters.size()));
  evaluator_.budget().spend(parameters.size() * (1 + arguments.named.size() / 16));
  const auto scope = std::make_shared<Scope>(around_, definition_.body);
  for (const auto& [name, value] : arguments.named) {
    const auto found =
        std::find_if(parameters.begin(), parameters.end(),
                     [&name = name](const auto& parameter) { return parameter.first == name; });
    const auto index = to_size(found - parameters.begin());
    if (index == parameters.size() || index < arguments.positional.size())
      throw Failure(fmt::format("macro '{}' takes no argument '{}' here", definition_.title, name));
  }
  const std::size_t required = parameters.size() - definition_.defaults.size();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, id] = parameters[i];
    const auto given =
        std::find_if(arguments.named.begin(), arguments.named.end(),
                     [&name = name](const auto& argument) { return argument.first == name; });
    if (i < arguments.positional.size())
      scope->set(id, arguments.positional[i]);
    else if (given != arguments.named.end())
      scope->set(id, given->second);
    else if (i >= required)
      scope->set(id, evaluator_.evaluate(*definition_.defaults[i - required], scope));
    else
      scope->set(id,
                 Value::undefined(fmt::format("parameter {} was not provided", in_quotes(name))));
  }
  Output text;
  evaluator_.execute(definition_.body.body, scope, text);
  return text.take();
}

Evaluator::Loop::Loop(Evaluator& evaluator, const For& statement, const Value& iterable,
                      ScopePtr around)
    : evaluator_(evaluator),
      statement_(statement),
      items_(iterate(iterable, evaluator.budget())),
      around_(std::move(around)),
      has_length_(!statement.condition) {}

std::optional<Value> Evaluator::Loop::take() {
  while (at_ < items_->items.size()) {
    const Value& item = items_->items[at_++];
    if (has_length_) return item;
    const auto scope = std::make_shared<Scope>(around_);
    evaluator_.assign(statement_.target, item, *scope);
    if (evaluator_.evaluate(*statement_.condition, scope).truth()) return item;
  }
  return std::nullopt;
}

const std::optional<Value>& Evaluator::Loop::peek() {
  if (!peeked_) after_ = take();
  peeked_ = true;
  return after_;
}

std::optional<Value> Evaluator::Loop::advance() {
  std::optional<Value> item = peeked_ ? std::move(after_) : take();
  peeked_ = false;
  after_.reset();
  ++index_;
  before_ = std::exchange(current_, item);
  return item;
}

std::int64_t Evaluator::Loop::length() {
  if (!has_length_) {
    // Those before, the current one, and all that the condition lets pass.
    Items all(to_size(index_ + 1));
    peek();
    for (auto item = after_; item; item = take()) all.push_back(*item);
    at_ = to_size(index_ + 1) + (after_ ? 1 : 0);
    items_ = Value::list(std::move(all)).if_list();
    has_length_ = true;
  }
  return static_cast<std::int64_t>(items_->items.size());
}

std::optional<Value> Evaluator::Loop::attribute(std::string_view name) {
  if (name == "index") return index_ + 1;
  if (name == "index0") return index_;
  if (name == "first") return index_ == 0;
  if (name == "last") return !peek().has_value();
  if (name == "length") return length();
  if (name == "revindex") return length() - index_;
  if (name == "revindex0") return length() - index_ - 1;
  if (name == "depth") return 1;
  if (name == "depth0") return 0;
  if (name == "cycle") return Value(std::make_shared<Cycle>(index_));
  if (name == "previtem")
    return index_ == 0 || !before_ ? Value::undefined("there is no previous item") : *before_;
  if (name == "nextitem") return peek() ? *peek() : Value::undefined("there is no next item");
  return std::nullopt;
}

}  // namespace ebb::text::jinja
