#include "text/chat/evaluator.h"

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/printable.h"
#include "ebb/error.h"
#include "text/chat/globals.h"
#include "text/chat/macro_and_loop.h"
#include "text/chat/printing.h"

namespace ebb::text::jinja {

void Scope::set(NameId name, Value value) {
  for (auto& [id, old] : variables_) {
    if (id != name) continue;
    old = std::move(value);
    return;
  }
  variables_.emplace_back(name, std::move(value));
  count();
}

void Scope::begin(const Block& block) {
  variables_.clear();
  for (const NameId name : *block.hidden)
    variables_.emplace_back(name, Value::undefined("a name is used before it is assigned"));
  count();
}

void Scope::count() {
  charge_.resize(sizeof(Scope) + HeldText::kOverhead +
                 variables_.capacity() * sizeof(variables_.front()));
}

std::optional<Value> Namespace::attribute(std::string_view name) {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

void Namespace::set(std::string_view name, Value value) {
  if (name.starts_with('_'))
    throw Failure(fmt::format("'{}': names in a namespace must not begin with '_'", name));
  variables_.insert_or_assign(std::string(name), std::move(value));
}

// Nodes in nodes, as long as it lives: the stack is not endless.
class Evaluator::Depth {
 public:
  explicit Depth(Evaluator& evaluator) : depth_(evaluator.depth_) {
    if (depth_ >= kDeepestEvaluation)
      throw Failure(fmt::format("the template calls itself, or nests, deeper than {} levels",
                                kDeepestEvaluation));
    ++depth_;
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

// One function for each kind of expression.
struct Evaluator::Visitor {
  Evaluator& self;
  const Expression& expression;
  const ScopePtr& scope;

  Value value(const ExpressionPtr& part) const { return self.evaluate(*part, scope); }
  Value value_or_none(const ExpressionPtr& part) const { return part ? value(part) : Value(); }
  Budget& budget() const { return self.budget_; }

  Items items(const std::vector<ExpressionPtr>& parts) const {
    Items result;
    result.reserve(parts.size());
    for (const auto& part : parts) result.push_back(value(part));
    return result;
  }

  Value operator()(const Literal& node) const { return node.value; }

  Value operator()(const Name& node) const {
    if (const Value* found = scope->find(node.id)) return *found;
    budget().spend(self.template_.names.size() / 8);
    for (const auto& [name, id] : self.template_.names)
      if (id == node.id && node.suspect)
        throw Failure(fmt::format("'{}' is not supported", name));
      else if (id == node.id)
        return Value::undefined(fmt::format("{} is undefined", in_quotes(name)));
    return {};
  }

  Value operator()(const ListDisplay& node) const {
    return node.is_tuple ? Value::tuple(items(node.items)) : Value::list(items(node.items));
  }

  Value operator()(const DictDisplay& node) const {
    Entries entries;
    for (const auto& [key, item] : node.entries) {
      Value name = value(key);
      insert(entries, std::move(name), value(item), budget());
    }
    return Value::dict(std::move(entries));
  }

  Value operator()(const Attribute& node) const {
    return attribute(value(node.of), node.name, budget());
  }

  Value operator()(const Subscript& node) const {
    const Value of = value(node.of);
    return subscript(of, value(node.index), budget());
  }

  Value operator()(const Slice& node) const {
    const Value of = value(node.of);
    const SliceBounds bounds{value_or_none(node.start), value_or_none(node.stop),
                             value_or_none(node.step)};
    return slice(of, bounds, budget());
  }

  Value operator()(const Call& node) const {
    const Value callee = value(node.callee);
    const Arguments arguments = self.evaluate(node.arguments, scope);
    self.line_ = expression.line;
    callee.require_defined();
    Object* object = callee.if_object();
    if (!object) throw Failure(fmt::format("'{}' object is not callable", callee.type_name()));
    return object->call(arguments, budget());
  }

  Value operator()(const Apply& node) const {
    const Value input = value(node.input);
    const Arguments arguments = self.evaluate(node.arguments, scope);
    self.line_ = expression.line;
    return node.function(input, arguments, budget());
  }

  Value operator()(const Not& node) const { return !value(node.operand).truth(); }

  Value operator()(const Sign& node) const {
    const Value operand = value(node.operand);
    const Value negative = negate(operand);
    return node.negative ? negative : negate(negative);
  }

  Value operator()(const Compute& node) const {
    const Value left = value(node.left);
    return compute(node.operation, left, value(node.right), budget());
  }

  Value operator()(const Concatenate& node) const {
    std::string text;
    for (const auto& part : node.parts) append_text(value(part), text, budget());
    return text;
  }

  Value operator()(const Both& node) const {
    Value left = value(node.left);
    return left.truth() ? value(node.right) : left;
  }

  Value operator()(const Either& node) const {
    Value left = value(node.left);
    return left.truth() ? left : value(node.right);
  }

  Value operator()(const Compare& node) const {
    Value left = value(node.first);
    for (const auto& [comparison, operand] : node.rest) {
      Value right = value(operand);
      if (!compare(comparison, left, right, budget())) return false;
      left = std::move(right);
    }
    return true;
  }

  Value operator()(const Choose& node) const {
    if (value(node.condition).truth()) return value(node.yes);
    if (node.no) return value(node.no);
    return Value::undefined("an inline 'if' without 'else' was false");
  }
};

Value Evaluator::evaluate(const Expression& expression, const ScopePtr& scope) {
  const Depth depth(*this);
  line_ = expression.line;
  budget_.spend(1);
  return std::visit(Visitor{*this, expression, scope}, expression.node);
}

Arguments Evaluator::evaluate(const CallArguments& given, const ScopePtr& scope) {
  Arguments arguments;
  for (const auto& part : given.positional) arguments.positional.push_back(evaluate(*part, scope));
  for (const auto& [name, part] : given.named)
    arguments.named.emplace_back(name, evaluate(*part, scope));
  return arguments;
}

Evaluator::~Evaluator() {
  for (const auto& each : namespaces_) each->clear();
  for (const auto& each : macros_) each->forget();
}

std::string Evaluator::run(const std::vector<std::pair<std::string, Value>>& variables) {
  auto context = std::make_shared<Scope>(nullptr);
  const auto add = [&](const std::vector<std::pair<std::string, Value>>& values) {
    for (const auto& [name, value] : values)
      if (const auto found = template_.names.find(name); found != template_.names.end())
        context->set(found->second, value);
  };
  add(globals(*this));
  add(variables);
  Output out;
  execute(template_.body.body, std::make_shared<Scope>(std::move(context), template_.body), out);
  return out.take();
}

Evaluator::Flow Evaluator::execute(const Body& body, const ScopePtr& scope, Output& out) {
  const Depth depth(*this);
  for (const Statement& statement : body)
    if (const Flow flow = execute_one(statement, scope, out); flow != Flow::on) return flow;
  return Flow::on;
}

Evaluator::Flow Evaluator::execute_one(const Statement& statement, const ScopePtr& scope,
                                       Output& out) {
  line_ = statement.line;
  budget_.spend(1);
  if (const auto* text = std::get_if<Text>(&statement.node)) {
    budget_.spend_text(out.text, text->text.size());
    out.text += text->text;
    out.count();
  } else if (const auto* print = std::get_if<Print>(&statement.node)) {
    append_text(evaluate(*print->expression, scope), out.text, budget_);
    out.count();
  } else if (const auto* choice = std::get_if<If>(&statement.node)) {
    return run_if(*choice, scope, out);
  } else if (const auto* loop = std::get_if<For>(&statement.node)) {
    return run_for(*loop, scope, out);
  } else if (const auto* set = std::get_if<Set>(&statement.node)) {
    assign(set->target, evaluate(*set->value, scope), *scope);
  } else if (const auto* block = std::get_if<SetBlock>(&statement.node)) {
    run_set_block(*block, scope);
  } else if (const auto* macro = std::get_if<MacroDefinition>(&statement.node)) {
    define_macro(*macro, scope);
  } else if (const auto* generation = std::get_if<Generation>(&statement.node)) {
    execute(generation->body.body, std::make_shared<Scope>(scope, generation->body), out);
  } else {
    return std::holds_alternative<Break>(statement.node) ? Flow::leave_loop : Flow::next_item;
  }
  return Flow::on;
}

Evaluator::Flow Evaluator::run_if(const If& statement, const ScopePtr& scope, Output& out) {
  for (const auto& [condition, body] : statement.branches)
    if (evaluate(*condition, scope).truth()) return execute(body, scope, out);
  return execute(statement.otherwise, scope, out);
}

Evaluator::Flow Evaluator::run_for(const For& statement, const ScopePtr& scope, Output& out) {
  auto loop = std::make_shared<Loop>(*this, statement, evaluate(*statement.iterable, scope), scope);
  bool finished = false;
  ScopePtr inner;
  while (auto item = loop->advance()) {
    budget_.spend(statement.body.hidden->size());
    // A macro may have kept the last one; else it serves again.
    if (!inner || inner.use_count() > 1)
      inner = std::make_shared<Scope>(scope, statement.body);
    else
      inner->begin(statement.body);
    inner->set(statement.loop, loop);
    assign(statement.target, *item, *inner);
    const Flow flow = execute(statement.body.body, inner, out);
    if (flow == Flow::leave_loop) break;
    // Jinja takes the other branch unless some item came to the end of the body.
    if (flow == Flow::on) finished = true;
  }
  if (finished) return Flow::on;
  return execute(statement.otherwise.body, std::make_shared<Scope>(scope, statement.otherwise),
                 out);
}

void Evaluator::run_set_block(const SetBlock& statement, const ScopePtr& scope) {
  Output text;
  const auto inner = std::make_shared<Scope>(scope, statement.body);
  execute(statement.body.body, inner, text);
  Value value = text.take();
  for (const Apply& filter : statement.filters)
    value = filter.function(value, evaluate(filter.arguments, inner), budget_);
  assign(statement.target, value, *scope);
}

void Evaluator::define_macro(const MacroDefinition& definition, const ScopePtr& scope) {
  count_object();
  macros_.push_back(std::make_shared<Macro>(*this, definition, scope));
  scope->set(definition.name, macros_.back());
}

void Evaluator::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.is_tuple) {
    const auto parts = iterate(value, budget_);
    if (parts->items.size() != target.items.size())
      throw Failure(fmt::format("{} values cannot be unpacked into {} names", parts->items.size(),
                                target.items.size()));
    for (std::size_t i = 0; i < parts->items.size(); ++i)
      assign(target.items[i], parts->items[i], scope);
    return;
  }
  if (target.attribute.empty()) {
    scope.set(target.name, value);
    return;
  }
  const Value* found = scope.find(target.name);
  auto* space = found ? found->if_object<Namespace>() : nullptr;
  if (!space) throw Failure("attributes can be set only on a namespace");
  space->set(target.attribute, value);
}

void Evaluator::count_object() {
  if (namespaces_.size() + macros_.size() >= kMostObjects)
    throw Failure(fmt::format("more than {} namespaces and macros", kMostObjects));
}

std::shared_ptr<Namespace> Evaluator::make_namespace() {
  count_object();
  namespaces_.push_back(std::make_shared<Namespace>());
  return namespaces_.back();
}

std::string render(const Template& parsed,
                   const std::vector<std::pair<std::string, Value>>& variables,
                   std::string_view where, const RenderLimits& limits) {
  Evaluator evaluator(parsed, limits);
  try {
    return evaluator.run(variables);
  } catch (const Failure& failure) {
    throw FormatError(fmt::format("{}: line {}: {}", where, evaluator.line(),
                                  printable(failure.what(), kLongestFailure)));
  }
}

}  // namespace ebb::text::jinja
