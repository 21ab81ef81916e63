// Compressed files: gzip and zstd, of one part or of many behind each other. They are read from the
// beginning to the end, for there is no other way.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include "base/function_ref.h"
#include "ebb/units.h"
#include "io/file.h"

namespace ebb::io {

enum class Compression { none, gzip, zstd };

// By the end of the name: .gz; .zst or .zstd.
Compression compression_of(const std::filesystem::path& path);
// By the first bytes, of which four are enough.
Compression compression_of_bytes(std::string_view beginning);
// The name without the end that says how it is compressed: "a.jsonl" of "a.jsonl.gz".
std::filesystem::path unpacked_name(const std::filesystem::path& path);

// What a text of a few bytes may become at most. Text never shrinks to a five-hundredth of itself;
// what does was made to fill memories and disks.
inline constexpr Bytes kMostGrowth = 500;
inline constexpr Bytes kFreeGrowth = 64 * kMiB;  // which a file of any size may become

// Hands the unpacked bytes to `out`, piece by piece, and the file's own bytes to `in` as they are
// read. Pieces are at most 256 KiB; the memory of the decoder is at most 128 MiB, by the window
// that a zstd file asks for, and next to nothing for gzip. Throws FormatError for a file that is
// cut short, damaged, followed by something else, grows beyond the bounds above, or asks for more
// memory; what was handed on before was as the file says.
using ByteSink = FunctionRef<void(std::span<const std::byte>)>;
void unpack(File& file, Compression compression, ByteSink in, ByteSink out);

// One of them, as unpack() drives it.
class Unpacker {
 public:
  struct Step {
    std::size_t taken = 0;  // from the front of what is packed
    std::size_t made = 0;   // at the front of the output
    bool whole = false;     // what was taken so far may end here
  };
  virtual ~Unpacker() = default;
  // Takes and makes as much as it can. Throws FormatError that says what is wrong and not where.
  virtual Step step(std::span<const std::byte> packed, std::span<std::byte> out) = 0;
};

std::unique_ptr<Unpacker> make_gzip_unpacker();
std::unique_ptr<Unpacker> make_zstd_unpacker();

}  // namespace ebb::io
