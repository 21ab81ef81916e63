// What the fuzz targets share. A target is one file here that defines LLVMFuzzerTestOneInput over a
// real entry point and states what must hold for input that was accepted. libFuzzer drives it
// (make fuzz); in `make test` seeds.cpp feeds it the files of corpus/TARGET.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/function_ref.h"
#include "ebb/units.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace ebb::fuzz {

// Stops the process, as a finding, where a promise does not hold.
void require(bool good, std::string_view promise);

// Runs `body` on one input and holds it to what is promised for any input:
// - it ends, or throws an ebb::Error; anything else that escapes ends the process;
// - the error's text can be printed: bounded, and without control characters;
// - the memory it held at its peak is at most `bytes_per_byte` for each byte of input, and 64 KiB;
// - the processor time it took is at most kMicrosecondsPerByte for each byte, and three seconds:
// more
//   than sanitized code on a busy machine takes for anything but work that is done again and again.
int run(const std::uint8_t* data, std::size_t size, Bytes bytes_per_byte,
        FunctionRef<void(std::string_view)> body);

// The same where more is allowed for any input, as for tables whose size is fixed.
// Where JSON breaks, the library quotes all that it read since the last word, with up to 8 bytes
// for one, and holds that several times. A list of "0," takes less: a value of 16 bytes for two,
// three times of which are held while it grows.
inline constexpr Bytes kJsonBytesPerByte = 64;
inline constexpr double kMicrosecondsPerByte = 20;
struct Allowance {
  Bytes bytes_per_byte = 0;
  Bytes free_bytes = 0;
  double microseconds_per_byte = kMicrosecondsPerByte;
  double free_seconds = 3;
};
int run(const std::uint8_t* data, std::size_t size, Allowance allowance,
        FunctionRef<void(std::string_view)> body);

}  // namespace ebb::fuzz
