// Words that the tables of all benches have in common.
#pragma once

#include <string>

namespace ebb::measure {

// "qwen2.5-3b" of "preset:qwen2.5-3b", the last part of a path.
std::string short_model(const std::string& model);

// "does not fit: " and the line that says what is missing, or the first; "failed: " where the
// device failed.
std::string refusal_text(const std::string& refusal, bool failed);

}  // namespace ebb::measure
