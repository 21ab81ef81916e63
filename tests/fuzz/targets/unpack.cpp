// Compressed files: gzip, and zstd for those that do not begin like gzip.
#include "io/unpack/unpack.h"
#include "fuzz/target.h"
#include "io/memory_file.h"

namespace ebb::fuzz {
namespace {

// A window of zstd, of which zlib needs none, and the pieces that are handed on.
constexpr Bytes kDecoder = 140 * kMiB;

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const auto body = [](std::string_view packed) {
    const bool gzip = io::compression_of_bytes(packed) == io::Compression::gzip;
    io::MemoryFile file("data.packed", std::make_shared<const std::string>(packed));
    Bytes seen = 0;
    Bytes made = 0;
    const auto in = [&](std::span<const std::byte> bytes) {
      seen += static_cast<Bytes>(bytes.size());
    };
    const auto out = [&](std::span<const std::byte> bytes) {
      made += static_cast<Bytes>(bytes.size());
      require(made <= io::kFreeGrowth + io::kMostGrowth * seen, "what comes out is bounded");
    };
    io::unpack(file, gzip ? io::Compression::gzip : io::Compression::zstd, in, out);
    require(seen == static_cast<Bytes>(packed.size()), "a file is read to its end");
  };
  // 64 MiB may come out of a few bytes, at 100 MB/s at the least.
  return run(
      data, size,
      {.bytes_per_byte = 4, .free_bytes = kDecoder, .microseconds_per_byte = 40, .free_seconds = 6},
      body);
}
