// The functions that every template can call: raise_exception, strftime_now, namespace, range,
// dict.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "text/chat/evaluator.h"

namespace ebb::text::jinja {

// By their names. They hold on to `evaluator`.
std::vector<std::pair<std::string, Value>> globals(Evaluator& evaluator);

}  // namespace ebb::text::jinja
