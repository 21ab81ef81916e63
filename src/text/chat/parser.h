// Reads templates: Jinja's grammar, as far as chat templates use it. What is not supported is
// refused here by name, also in branches that would never run.
#pragma once

#include <memory>
#include <string_view>

#include "text/chat/syntax.h"

namespace ebb::text::jinja {

// Throws FormatError that names `where` and the line.
std::shared_ptr<const Template> parse(std::string_view source, std::string_view where);

}  // namespace ebb::text::jinja
