// An error of a run, with a sentence more.
#pragma once

#include <exception>
#include <string>

namespace ebb::engine {

// Throws an error of the same kind, with what it carries, so that programs can still tell it; its
// text ends with `more`. What is no ebb::Error becomes one.
[[noreturn]] void rethrow_with(const std::exception_ptr& failure, const std::string& more);

}  // namespace ebb::engine
