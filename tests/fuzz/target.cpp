#include "fuzz/target.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include <fmt/format.h>

#include "ebb/error.h"
#include "fuzz/memory_meter.h"

namespace ebb::fuzz {
namespace {

// For texts and buffers that do not grow with the input.
constexpr Bytes kFreeBytes = 64 * kKiB;
// A screen of text: a message may quote the input, but not repeat it.
constexpr std::size_t kMostMessage = 2000;

void check_message(std::string_view text) {
  require(text.size() <= kMostMessage, "an error's text is bounded");
  require(std::none_of(text.begin(), text.end(),
                       [](char c) {
                         return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f;
                       }),
          "an error's text has no control characters");
}

// Of this thread: what others do to the machine does not count.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

void require(bool good, std::string_view promise) {
  if (good) return;
  fmt::print(stderr, "broken promise: {}\n", promise);
  std::abort();
}

int run(const std::uint8_t* data, std::size_t size, Bytes bytes_per_byte,
        FunctionRef<void(std::string_view)> body) {
  return run(data, size, {.bytes_per_byte = bytes_per_byte, .free_bytes = kFreeBytes}, body);
}

int run(const std::uint8_t* data, std::size_t size, Allowance allowance,
        FunctionRef<void(std::string_view)> body) {
  MemoryMeter meter;
  const double start = processor_seconds();
  try {
    body({reinterpret_cast<const char*>(data), size});
  } catch (const Error& error) {
    check_message(error.what());
  }
  const Bytes most = allowance.free_bytes + allowance.bytes_per_byte * static_cast<Bytes>(size);
  if (meter.peak() > most) {
    require(false, fmt::format("memory is bounded by the input: expected at most {} bytes for {}, "
                               "found {}",
                               most, size, meter.peak()));
  }
  const double seconds = processor_seconds() - start;
  const double most_seconds =
      allowance.free_seconds + 1e-6 * allowance.microseconds_per_byte * static_cast<double>(size);
  if (seconds > most_seconds) {
    require(false, fmt::format("time is bounded by the input: expected at most {:.1f} s for {} "
                               "bytes, found {:.1f}",
                               most_seconds, size, seconds));
  }
  return 0;
}

}  // namespace ebb::fuzz
