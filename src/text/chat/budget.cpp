#include "text/chat/budget.h"

#include <fmt/format.h>

#include "text/chat/value.h"

namespace ebb::text::jinja {

void Budget::exhausted() {
  throw Failure(fmt::format("the template does more than {} steps of work", kMostWork));
}

void Budget::text_too_long() {
  throw Failure(fmt::format("the template makes a text longer than {} MiB", kLongestText >> 20));
}

void Budget::list_too_long() {
  throw Failure(fmt::format("the template makes a list longer than {} items", kLongestList));
}

}  // namespace ebb::text::jinja
