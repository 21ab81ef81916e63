// The values a template computes with: Python's, as far as templates use them. Immutable but for
// namespaces, as Jinja's sandbox has it, so lists and dicts are shared freely.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "text/chat/meter.h"

namespace ebb::text::jinja {

class Budget;
class Object;
class Value;
struct Arguments;
struct Dict;
struct List;

// What a template may not do, found while it runs. Whoever knows the line makes a FormatError of
// it.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Items = std::vector<Value>;
using Entries = std::vector<std::pair<Value, Value>>;

class Value {
 public:
  Value() = default;  // none
  template <std::same_as<bool> T>
  Value(T truth) : data_(truth) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) Value(T number) : data_(static_cast<std::int64_t>(number)) {}
  Value(double number) : data_(number) {}
  Value(std::string text) : data_(std::make_shared<const HeldText>(std::move(text))) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  template <std::derived_from<Object> T>
  Value(std::shared_ptr<T> object) : data_(std::shared_ptr<Object>(std::move(object))) {}
  Value(const char*) = delete;  // it would become a bool

  static Value list(Items items);
  static Value tuple(Items items);
  static Value dict(Entries entries);
  // A string that the filter 'safe' marked. It is a string in all but one thing: what is added to
  // it is escaped.
  static Value safe(std::string text);
  // Prints as nothing, is false, and fails with `why` where more is asked of it.
  static Value undefined(std::string why);

  bool is_none() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_undefined() const { return std::holds_alternative<Undefined>(data_); }
  bool is_bool() const { return std::holds_alternative<bool>(data_); }
  bool is_number() const { return is_bool() || if_integer() || if_float(); }
  const std::int64_t* if_integer() const { return std::get_if<std::int64_t>(&data_); }
  const double* if_float() const { return std::get_if<double>(&data_); }
  const std::string* if_string() const {
    const auto* text = std::get_if<std::shared_ptr<const std::string>>(&data_);
    if (text) return text->get();
    const auto* safe = std::get_if<Safe>(&data_);
    return safe ? safe->text.get() : nullptr;
  }
  bool is_safe() const { return std::holds_alternative<Safe>(data_); }
  std::shared_ptr<const List> if_list() const;  // or a tuple
  const Dict* if_dict() const;
  Object* if_object() const;
  template <class T>
  T* if_object() const {
    return dynamic_cast<T*>(if_object());
  }

  // A bool or an integer, as Python lets both count and index.
  std::optional<std::int64_t> whole() const;
  // Any number. Throws Failure for other kinds.
  double real() const;
  bool truth() const;
  // "str", "int", "NoneType", ...: Python's name for it.
  std::string_view type_name() const;
  // How deep lists and dicts are nested in it; 0 for what holds no values.
  int depth() const;
  // Throws Failure with an undefined value's reason; else does nothing.
  void require_defined() const;
  // The same object, or equal and of a kind where that cannot be told apart.
  bool same_object(const Value& other) const;

 private:
  struct Safe {
    std::shared_ptr<const std::string> text;
  };
  struct Undefined {
    std::shared_ptr<const HeldText> why;
  };
  std::variant<std::monostate, bool, std::int64_t, double, std::shared_ptr<const std::string>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, Undefined,
               std::shared_ptr<Object>, Safe>
      data_;
};

struct List {
  Items items;
  bool is_tuple = false;
  int depth = 1;
  Charge charge{};
};

// In the order of insertion. Looking up walks over the entries: they are few.
struct Dict {
  Entries entries;
  int depth = 1;
  Charge charge{};

  const Value* find(std::string_view key) const;
  const Value* find(const Value& key, Budget& budget) const;
};

// Puts `value` at `key`: a key that is there keeps its place.
void insert(Entries& entries, Value key, Value value, Budget& budget);

// Everything that is no plain data: functions, macros, loops, namespaces, iterators.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual std::optional<Value> attribute(std::string_view name);
  virtual Value call(const Arguments& arguments, Budget& budget);

 private:
  Charge charge_{128};  // about what the largest of them takes
};

// What Python iterates without it being a list: what filters yield, a dict's views, range().
class Iterable : public Object {
 public:
  enum class Kind { generator, keys, values, items, range };

  Iterable(Kind kind, Items items);

  std::string_view type_name() const override;
  bool has_length() const { return kind_ != Kind::generator; }
  bool has_index() const { return kind_ == Kind::range; }
  // All items, or of a generator those that nobody has taken yet: it gives each of them once.
  std::shared_ptr<const List> take();
  // The first of them alone, and nothing where there is none.
  std::optional<Value> take_one();
  const std::shared_ptr<const List>& items() const { return items_; }

 private:
  Kind kind_;
  std::shared_ptr<const List> items_;
  std::size_t taken_ = 0;
};

Value generator(Items items);

}  // namespace ebb::text::jinja
