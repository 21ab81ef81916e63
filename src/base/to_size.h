// A count as the standard library wants it: for sizes of spans and vectors, whose indices and sizes
// are unsigned where Ebb's are not. (A List is indexed by either.)
#pragma once

#include <concepts>
#include <cstddef>

namespace ebb {

constexpr std::size_t to_size(std::integral auto count) { return static_cast<std::size_t>(count); }

}  // namespace ebb
