#include "io/unpack/unpack.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::io {
namespace {

constexpr Bytes kPieceBytes = 256 * kKiB;

[[noreturn]] void throw_cut(const File& file) {
  throw FormatError(fmt::format(
      "'{}' ends in the middle of what is compressed in it, behind byte {}: it was cut short, "
      "perhaps by a download that broke off; get it again",
      file.path().string(), file.size()));
}

}  // namespace

Compression compression_of(const std::filesystem::path& path) {
  const std::filesystem::path end = path.extension();
  if (end == ".gz") return Compression::gzip;
  return end == ".zst" || end == ".zstd" ? Compression::zstd : Compression::none;
}

Compression compression_of_bytes(std::string_view beginning) {
  if (beginning.starts_with("\x1f\x8b")) return Compression::gzip;
  return beginning.starts_with("\x28\xb5\x2f\xfd") ? Compression::zstd : Compression::none;
}

std::filesystem::path unpacked_name(const std::filesystem::path& path) {
  return compression_of(path) == Compression::none ? path : path.parent_path() / path.stem();
}

void unpack(File& file, Compression compression, ByteSink in, ByteSink out) {
  const std::unique_ptr<Unpacker> unpacker =
      compression == Compression::gzip ? make_gzip_unpacker() : make_zstd_unpacker();
  const Bytes size = file.size();
  std::vector<std::byte> packed(to_size(std::min(kPieceBytes, size)));
  std::vector<std::byte> made(to_size(kPieceBytes));
  Bytes total = 0;
  bool whole = false;
  for (Bytes at = 0; at < size;) {
    const std::span piece(packed.data(), to_size(std::min(kPieceBytes, size - at)));
    file.read(at, piece);
    in(piece);
    std::span<const std::byte> left = piece;
    // A step that fills the output may have more to give of what it has taken already.
    for (bool full = false; full || !left.empty();) {
      Unpacker::Step step;
      try {
        step = unpacker->step(left, made);
      } catch (const FormatError& error) {
        throw FormatError(fmt::format(
            "'{}': {}, at about byte {} of {}; was the file damaged on its way here? Get it again",
            file.path().string(), error.what(), at + static_cast<Bytes>(piece.size() - left.size()),
            size));
      }
      total += static_cast<Bytes>(step.made);
      const Bytes taken = at + static_cast<Bytes>(piece.size() - left.size() + step.taken);
      if (total - kFreeGrowth > kMostGrowth * taken) {
        throw FormatError(fmt::format(
            "'{}' unpacks to more than {} times its size, {} from its first {} bytes: that is no "
            "text to learn from. If it is, unpack it yourself and give what comes out",
            file.path().string(), kMostGrowth, format_bytes(total), taken));
      }
      out(std::span(made).first(step.made));
      left = left.subspan(step.taken);
      whole = step.whole;
      full = step.made == made.size();
      if (step.taken == 0 && step.made == 0) break;
    }
    if (!left.empty()) throw_cut(file);
    at += static_cast<Bytes>(piece.size());
  }
  if (!whole) throw_cut(file);
}

}  // namespace ebb::io
