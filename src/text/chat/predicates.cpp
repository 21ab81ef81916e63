#include "text/chat/predicates.h"

#include "text/chat/operators.h"
#include "text/chat/printing.h"
#include "text/chat/unicode.h"

namespace ebb::text::jinja {
namespace {

void need_none(const Arguments& arguments) { const Bound bound("a test", arguments, {}); }

template <bool (*holds)(const Value&)>
Value simple(const Value& self, const Arguments& arguments, Budget&) {
  need_none(arguments);
  return holds(self);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is_bool(); }
bool is_true(const Value& v) { return v.is_bool() && v.truth(); }
bool is_false(const Value& v) { return v.is_bool() && !v.truth(); }
bool is_integer(const Value& v) { return v.if_integer(); }
bool is_float(const Value& v) { return v.if_float(); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.if_string(); }
bool is_mapping(const Value& v) { return v.if_dict(); }

// What has a length and takes an index. What is undefined has both in Jinja, and so have dicts.
bool is_sequence(const Value& v) {
  const auto* iterable = v.if_object<Iterable>();
  return v.is_undefined() || v.if_string() || v.if_list() || v.if_dict() ||
         (iterable && iterable->has_index());
}

bool is_iterable(const Value& v) {
  return v.is_undefined() || v.if_string() || v.if_list() || v.if_dict() || v.if_object<Iterable>();
}

Value remainder_is(const Value& self, const Value& divisor, std::int64_t wanted, Budget& budget) {
  return equals(compute(Arithmetic::modulo, self, divisor, budget), wanted, budget);
}

Value even(const Value& self, const Arguments& arguments, Budget& budget) {
  need_none(arguments);
  return remainder_is(self, 2, 0, budget);
}

Value odd(const Value& self, const Arguments& arguments, Budget& budget) {
  need_none(arguments);
  return remainder_is(self, 2, 1, budget);
}

Value divisibleby(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("divisibleby", arguments, {"num"}, 1);
  return remainder_is(self, *bound[0], 0, budget);
}

template <bool (*holds)(std::string_view)>
Value of_case(const Value& self, const Arguments& arguments, Budget& budget) {
  need_none(arguments);
  return holds(to_text(self, budget));
}

template <Comparison comparison>
Value compared(const Value& self, const Arguments& arguments, Budget& budget) {
  const Bound bound("a comparison", arguments, {"seq"}, 1);
  return compare(comparison, self, *bound[0], budget);
}

struct NamedTest {
  std::string_view name;
  Function function;
};

constexpr NamedTest kTests[] = {
    {"!=", compared<Comparison::unequal>},
    {"<", compared<Comparison::less>},
    {"<=", compared<Comparison::less_equal>},
    {"==", compared<Comparison::equal>},
    {">", compared<Comparison::greater>},
    {">=", compared<Comparison::greater_equal>},
    {"boolean", simple<is_boolean>},
    {"defined", simple<is_defined>},
    {"divisibleby", divisibleby},
    {"eq", compared<Comparison::equal>},
    {"equalto", compared<Comparison::equal>},
    {"even", even},
    {"false", simple<is_false>},
    {"float", simple<is_float>},
    {"ge", compared<Comparison::greater_equal>},
    {"greaterthan", compared<Comparison::greater>},
    {"gt", compared<Comparison::greater>},
    {"in", compared<Comparison::in>},
    {"integer", simple<is_integer>},
    {"iterable", simple<is_iterable>},
    {"le", compared<Comparison::less_equal>},
    {"lessthan", compared<Comparison::less>},
    {"lower", of_case<is_lower>},
    {"lt", compared<Comparison::less>},
    {"mapping", simple<is_mapping>},
    {"ne", compared<Comparison::unequal>},
    {"none", simple<is_none>},
    {"number", simple<is_number>},
    {"odd", odd},
    {"sequence", simple<is_sequence>},
    {"string", simple<is_string>},
    {"true", simple<is_true>},
    {"undefined", simple<is_undefined>},
    {"upper", of_case<is_upper>},
};

}  // namespace

Function find_test(std::string_view name) {
  for (const NamedTest& entry : kTests)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace ebb::text::jinja
