#include "text/chat/budget.h"

#include <fmt/format.h>

#include "text/chat/value.h"

namespace ebb::text::jinja {

void Budget::exhausted() const {
  throw Failure(fmt::format("the template does more than {} steps of work", limits_.work));
}

void Budget::text_too_long() const {
  throw Failure(
      fmt::format("the template makes a text longer than {} MiB", limits_.text_bytes >> 20));
}

void Budget::list_too_long() {
  throw Failure(fmt::format("the template makes a list longer than {} items", kLongestList));
}

}  // namespace ebb::text::jinja
