#include "text/chat/budget.h"

#include <fmt/format.h>

#include "ebb/units.h"
#include "text/chat/value.h"

namespace ebb::text::jinja {

static_assert(sizeof(Value) == kItemBytes);

void Budget::exhausted() const {
  throw Failure(fmt::format("the template does more than {} steps of work", limits_.work));
}

void Budget::text_too_long() const {
  throw Failure(fmt::format("the template makes a text longer than {}",
                            format_bytes(static_cast<Bytes>(limits_.piece_bytes()))));
}

void Budget::list_too_long() const {
  throw Failure(fmt::format("the template makes a list longer than {} items",
                            std::min(kLongestList, limits_.piece_bytes() / kItemBytes)));
}

}  // namespace ebb::text::jinja
