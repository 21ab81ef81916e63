// How a part of Ebb tells people something while it works: one line at a time, no newline.
#pragma once

#include <functional>
#include <string>

namespace ebb {

using Note = std::function<void(const std::string& text)>;

}  // namespace ebb
