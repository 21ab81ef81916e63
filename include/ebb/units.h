// Quantities with units, as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ebb {

using Bytes = std::int64_t;

inline constexpr Bytes kKiB = Bytes{1} << 10;
inline constexpr Bytes kMiB = Bytes{1} << 20;
inline constexpr Bytes kGiB = Bytes{1} << 30;

// "10GiB", "512MiB", "1.5GB", "4096": binary (KiB, MiB, GiB, TiB) and decimal (kB, MB, GB, TB)
// units; a bare number is bytes. Throws ConfigError that names `what` ("--device-memory")
// otherwise.
Bytes parse_bytes(std::string_view text, std::string_view what);

// "30s", "10min", "1.5h", "2d". Throws ConfigError that names `what` otherwise; a bare number is
// refused, as nobody knows its unit.
double parse_seconds(std::string_view text, std::string_view what);

// "1.50 GiB": three significant digits, binary units.
std::string format_bytes(Bytes bytes);

// "1.54 B", "10.2 M": a count in decimal thousands.
std::string format_count(std::int64_t count);

// "850 us", "12.5 ms", "3.2 s", "4m 05s", "2h 10m".
std::string format_seconds(double seconds);

}  // namespace ebb
