// Runs a template: one object a rendering.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat/budget.h"
#include "text/chat/syntax.h"
#include "text/chat/value.h"

namespace ebb::text::jinja {

// Variables. Loops, macros and blocks have one of their own, and see those around them.
class Scope {
 public:
  explicit Scope(std::shared_ptr<const Scope> parent) : parent_(std::move(parent)) { count(); }
  Scope(std::shared_ptr<const Scope> parent, const Block& block) : parent_(std::move(parent)) {
    begin(block);
  }

  const Value* find(NameId name) const {
    for (const Scope* scope = this; scope; scope = scope->parent_.get())
      for (const auto& [id, value] : scope->variables_)
        if (id == name) return &value;
    return nullptr;
  }
  void set(NameId name, Value value);
  // As new, for another run of its block.
  void begin(const Block& block);

 private:
  void count();

  std::shared_ptr<const Scope> parent_;
  std::vector<std::pair<NameId, Value>> variables_;
  Charge charge_{};
};
using ScopePtr = std::shared_ptr<Scope>;

// What a template keeps beyond its scopes.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name) override;
  void set(std::string_view name, Value value);
  void clear() { variables_.clear(); }

 private:
  std::map<std::string, Value, std::less<>> variables_;
};

class Evaluator {
 public:
  // `parsed` must outlive it.
  Evaluator(const Template& parsed, const RenderLimits& limits)
      : template_(parsed), budget_(limits) {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  // Throws Failure; `line()` then says where.
  std::string run(const std::vector<std::pair<std::string, Value>>& variables);
  int line() const { return line_; }

  Value evaluate(const Expression& expression, const ScopePtr& scope);
  enum class Flow { on, leave_loop, next_item };
  Flow execute(const Body& body, const ScopePtr& scope, Output& out);
  void assign(const Target& target, const Value& value, Scope& scope);

  std::shared_ptr<Namespace> make_namespace();
  Budget& budget() { return budget_; }

 private:
  struct Visitor;
  class Macro;
  class Loop;
  class Depth;

  Flow execute_one(const Statement& statement, const ScopePtr& scope, Output& out);
  Flow run_if(const If& statement, const ScopePtr& scope, Output& out);
  Flow run_for(const For& statement, const ScopePtr& scope, Output& out);
  void run_set_block(const SetBlock& statement, const ScopePtr& scope);
  void define_macro(const MacroDefinition& definition, const ScopePtr& scope);
  Arguments evaluate(const CallArguments& given, const ScopePtr& scope);
  void count_object();

  const Template& template_;
  Budget budget_;
  int line_ = 1;
  int depth_ = 0;
  // Namespaces and macros may hold each other in circles: these break them in the end.
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Macro>> macros_;
};

// The rendered text. Throws FormatError that names `where` and the line.
std::string render(const Template& parsed,
                   const std::vector<std::pair<std::string, Value>>& variables,
                   std::string_view where, const RenderLimits& limits);

}  // namespace ebb::text::jinja
