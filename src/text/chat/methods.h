// The methods of strings, lists and dicts that templates call.
#pragma once

#include <string>
#include <string_view>

#include "text/chat/call.h"
#include "text/chat/value.h"

namespace ebb::text::jinja {

// How Python and Jinja's sandbox stand to a name behind a dot.
struct Method {
  enum class Standing {
    none,         // Python has no such attribute
    supported,    // `function` is set
    unsupported,  // Python has it, Ebb does not
    forbidden,    // it would change the value, or is Python's own business
  };
  Standing standing = Standing::none;
  Function function = nullptr;
};
Method find_method(const Value& value, std::string_view name);

class BoundMethod : public Object {
 public:
  BoundMethod(Value self, Function function) : self_(std::move(self)), function_(function) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  Value call(const Arguments& arguments, Budget& budget) override {
    return function_(self_, arguments, budget);
  }

 private:
  Value self_;
  Function function_;
};

// Both `text.replace` and the filter do this; all of them where `count` is negative.
std::string replace_text(std::string_view text, std::string_view old, std::string_view fresh,
                         std::int64_t count, Budget& budget);

}  // namespace ebb::text::jinja
