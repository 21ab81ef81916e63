#include "io/memory_file.h"

#include <cstring>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::io {

void MemoryFile::read(Bytes offset, std::span<std::byte> to) {
  const auto wanted = static_cast<Bytes>(to.size());
  if (offset < 0 || offset > size() || wanted > size() - offset) {
    throw IoError(fmt::format("cannot read {} bytes at {} of '{}': it has {}", wanted, offset,
                              path().string(), size()),
                  path().string(), offset);
  }
  if (!to.empty()) std::memcpy(to.data(), bytes_->data() + offset, to.size());
}

void MemoryFile::write(Bytes, std::span<const std::byte>) {
  throw IoError(fmt::format("cannot write '{}': it is for reading", path().string()),
                path().string());
}

}  // namespace ebb::io
