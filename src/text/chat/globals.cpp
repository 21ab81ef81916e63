#include "text/chat/globals.h"

#include <fmt/format.h>

#include <ctime>
#include <functional>

#include "text/chat/call.h"
#include "text/chat/operators.h"
#include "text/chat/printing.h"

namespace ebb::text::jinja {
namespace {

class GlobalFunction : public Object {
 public:
  using Body = std::function<Value(const Arguments&, Budget&)>;
  explicit GlobalFunction(Body body) : body_(std::move(body)) {}
  std::string_view type_name() const override { return "function"; }
  Value call(const Arguments& arguments, Budget& budget) override {
    return body_(arguments, budget);
  }

 private:
  Body body_;
};

Value raise_exception(const Arguments& arguments, Budget& budget) {
  const Bound bound("raise_exception", arguments, {"message"}, 1);
  throw Failure(
      fmt::format("the template refuses this conversation: {}", to_text(*bound[0], budget)));
}

Value strftime_now(const Arguments& arguments, Budget& budget) {
  const Bound bound("strftime_now", arguments, {"format"}, 1);
  const std::string* format = bound.text(0);
  if (!format || format->find('\0') != std::string::npos)
    throw Failure("'strftime_now' needs a format");
  budget.spend(format->size());
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[4096];
  // A format may well give nothing, which looks like no room: a mark at the end tells them apart.
  const std::size_t size = std::strftime(text, sizeof text, (*format + "|").c_str(), &local);
  if (size == 0) throw Failure("the format of 'strftime_now' gives too long a text");
  return std::string(text, size - 1);
}

Value range(const Arguments& arguments, Budget& budget) {
  const Bound bound("range", arguments, {"", "", ""}, 1);
  const bool has_stop = bound[1] != nullptr;
  const std::int64_t start = has_stop ? bound.whole(0, 0) : 0;
  const std::int64_t stop = has_stop ? bound.whole(1, 0) : bound.whole(0, 0);
  const std::int64_t step = bound.whole(2, 1);
  if (step == 0) throw Failure("the step of 'range' must not be zero");
  // The distance of any two integers fits an unsigned one.
  const auto distance = [](std::int64_t low, std::int64_t high) {
    return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  };
  const std::uint64_t span = step > 0 ? (start < stop ? distance(start, stop) : 0)
                                      : (stop < start ? distance(stop, start) : 0);
  const std::uint64_t width = step > 0 ? static_cast<std::uint64_t>(step)
                                       : std::uint64_t{0} - static_cast<std::uint64_t>(step);
  const std::uint64_t count = span == 0 ? 0 : (span - 1) / width + 1;
  if (count > kLongestRange)
    throw Failure(fmt::format("a range of more than {} numbers", kLongestRange));
  budget.spend_list(count);
  Items items;
  items.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i)
    items.emplace_back(start + static_cast<std::int64_t>(i) * step);
  return std::make_shared<Iterable>(Iterable::Kind::range, std::move(items));
}

// What both dict() and namespace() take: a mapping or pairs, and names.
Entries entries_of(std::string_view function, const Arguments& arguments, Budget& budget) {
  if (arguments.positional.size() > 1)
    throw Failure(fmt::format("'{}' takes at most one argument without a name", function));
  Entries entries;
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional[0];
    if (const auto* dict = given.if_dict()) {
      budget.spend_list(dict->entries.size());
      entries = dict->entries;
    } else {
      const auto pairs = iterate(given, budget);
      for (const Value& pair : pairs->items) {
        const auto parts = iterate(pair, budget);
        if (parts->items.size() != 2)
          throw Failure(fmt::format("'{}' needs pairs of a key and a value", function));
        insert(entries, parts->items[0], parts->items[1], budget);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) insert(entries, name, value, budget);
  return entries;
}

Value make_namespace(Evaluator& evaluator, const Arguments& arguments, Budget& budget) {
  auto made = evaluator.make_namespace();
  for (const auto& [key, value] : entries_of("namespace", arguments, budget)) {
    if (!key.if_string()) throw Failure("the names of a namespace are strings");
    made->set(*key.if_string(), value);
  }
  return made;
}

}  // namespace

std::vector<std::pair<std::string, Value>> globals(Evaluator& evaluator) {
  const auto function = [](GlobalFunction::Body body) -> Value {
    return std::make_shared<GlobalFunction>(std::move(body));
  };
  return {
      {"raise_exception", function(raise_exception)},
      {"strftime_now", function(strftime_now)},
      {"range", function(range)},
      {"dict", function([](const Arguments& arguments, Budget& budget) {
         return Value::dict(entries_of("dict", arguments, budget));
       })},
      {"namespace", function([&evaluator](const Arguments& arguments, Budget& budget) {
         return make_namespace(evaluator, arguments, budget);
       })},
  };
}

}  // namespace ebb::text::jinja
