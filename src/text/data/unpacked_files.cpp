#include "text/data/unpacked_files.h"

#include <random>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "ebb/error.h"
#include "io/unpack/unpack.h"

namespace ebb::text {
namespace {

// Asking how much is free costs a system call.
constexpr Bytes kBytesBetweenQuestions = 16 * kMiB;

}  // namespace

UnpackedFiles::UnpackedFiles(io::FileSystem& files, std::filesystem::path folder)
    : files_(files), folder_(std::move(folder)) {}

void UnpackedFiles::make() {
  // Many may write there: nobody can know the name beforehand and put a link in its place.
  if (folder_.empty()) folder_ = std::filesystem::temp_directory_path();
  std::random_device random;
  const std::filesystem::path path = folder_ / fmt::format(".ebb-unpacked-{:08x}{:08x}{:08x}{:08x}",
                                                           random(), random(), random(), random());
  file_ = files_.create(path);
  files_.remove_all(path);
}

UnpackedText UnpackedFiles::add(const std::filesystem::path& path,
                                const std::function<void(Bytes, Bytes)>& progress) {
  const std::unique_ptr<io::File> packed = files_.open(path);
  if (!file_) make();
  UnpackedText text{.file = file_,
                    .begin = end_,
                    .bytes = 0,
                    .packed_bytes = packed->size(),
                    .packed_digest = {}};
  Digest digest;
  Bytes read = 0;
  Bytes unasked = kBytesBetweenQuestions;
  const auto in = [&](std::span<const std::byte> bytes) {
    digest.add(bytes);
    read += static_cast<Bytes>(bytes.size());
    if (progress) progress(read, text.packed_bytes);
  };
  const auto out = [&](std::span<const std::byte> bytes) {
    unasked += static_cast<Bytes>(bytes.size());
    if (unasked >= kBytesBetweenQuestions) {
      unasked = 0;
      if (files_.available(folder_) < kLeftFree + kBytesBetweenQuestions) {
        throw IoError(
            fmt::format(
                "no room to unpack '{}' in '{}': {} of it are there, and less than {} of the disk "
                "are free. Set TMPDIR to a folder on a disk with more room, or unpack the file "
                "yourself and give what comes out",
                path.string(), folder_.string(), format_bytes(text.bytes),
                format_bytes(kLeftFree + kBytesBetweenQuestions)),
            folder_.string());
      }
    }
    file_->write(text.begin + text.bytes, bytes);
    text.bytes += static_cast<Bytes>(bytes.size());
  };
  // Where it throws, the next file is written over what is there.
  io::unpack(*packed, io::compression_of(path), in, out);
  text.packed_digest = digest.hex();
  end_ += text.bytes;
  return text;
}

}  // namespace ebb::text
