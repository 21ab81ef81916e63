#include "cli/whole_numbers.h"

#include <charconv>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace ebb::cli {
namespace {

// Empty where the text is the number: printed again it must read the same, which leaves out 010, +5
// and 1e3.
template <class Number>
std::string refusal(const std::string& text) {
  using Range = std::numeric_limits<Number>;
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  if (whole && fmt::to_string(number) == text) return {};
  return fmt::format("{}: expected a whole number {} to {}, in decimal digits", text,
                     Range::min() == 0 ? "from 0" : "up", Range::max());
}

}  // namespace

void check_whole_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    // CLI11's names for what a flag takes, whatever the width: narrower types it refuses itself.
    const std::string type = option->get_type_name();
    if (type == "INT") option->check(CLI::Validator(refusal<std::int64_t>, ""));
    if (type == "UINT") option->check(CLI::Validator(refusal<std::uint64_t>, ""));
  }
  for (CLI::App* verb : app.get_subcommands([](CLI::App*) { return true; })) {
    check_whole_numbers(*verb);
  }
}

}  // namespace ebb::cli
