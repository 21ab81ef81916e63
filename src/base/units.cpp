#include "ebb/units.h"
#include "base/to_size.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb {
namespace {

struct Unit {
  std::string_view name;
  double size;
};

constexpr std::array kByteUnits = {
    Unit{"", 1.0},       Unit{"B", 1.0},      Unit{"KiB", 0x1p10}, Unit{"MiB", 0x1p20},
    Unit{"GiB", 0x1p30}, Unit{"TiB", 0x1p40}, Unit{"kB", 1e3},     Unit{"KB", 1e3},
    Unit{"MB", 1e6},     Unit{"GB", 1e9},     Unit{"TB", 1e12},
};

constexpr std::array kTimeUnits = {
    Unit{"s", 1.0}, Unit{"min", 60.0}, Unit{"m", 60.0}, Unit{"h", 3600.0}, Unit{"d", 86400.0},
};

// A number from 0 on with one of the units, in the unit of size 1; nothing where it is none, or is
// not below `most`.
std::optional<double> try_parse(std::string_view text, std::span<const Unit> units, double most) {
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (code != std::errc{} || !std::isfinite(number) || number < 0) return std::nullopt;
  std::string_view unit(rest, to_size(text.data() + text.size() - rest));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& known : units) {
    if (unit == known.name && number * known.size < most) return number * known.size;
  }
  return std::nullopt;
}

std::string three_digits(double value, std::string_view unit) {
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

}  // namespace

Bytes parse_bytes(std::string_view text, std::string_view what) {
  constexpr auto most = static_cast<double>(std::numeric_limits<Bytes>::max());
  if (const auto bytes = try_parse(text, kByteUnits, most)) return static_cast<Bytes>(*bytes);
  throw ConfigError(
      fmt::format("{}: '{}' is not a number of bytes. Write a number with a unit, such as 512MiB, "
                  "10GiB or 1.5GB "
                  "(units: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB).",
                  what, text));
}

double parse_seconds(std::string_view text, std::string_view what) {
  constexpr double most = 1e9;  // thirty years
  if (const auto seconds = try_parse(text, kTimeUnits, most)) return *seconds;
  throw ConfigError(
      fmt::format("{}: '{}' is not a time. Write a number with a unit, such as 30s, 10min or 2h "
                  "(units: s, min, h, d).",
                  what, text));
}

std::string format_bytes(Bytes bytes) {
  constexpr std::array<std::string_view, 5> names = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::fabs(value) >= 1023.995 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : three_digits(value, names[unit]);
}

std::string format_count(std::int64_t count) {
  const double value = static_cast<double>(count);
  if (count >= 1'000'000'000) return three_digits(value / 1e9, "B");
  if (count >= 1'000'000) return three_digits(value / 1e6, "M");
  if (count >= 1'000) return three_digits(value / 1e3, "k");
  return fmt::format("{}", count);
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m {:02d}s", whole / 60, whole % 60);
  return fmt::format("{}h {:02d}m", whole / 3600, whole / 60 % 60);
}

}  // namespace ebb
