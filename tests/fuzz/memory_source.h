// A data file in memory that the text room opens by its path, as it opens any other.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "fuzz/target.h"

namespace ebb::fuzz {

class MemorySource {
 public:
  explicit MemorySource(std::string_view bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0 && ::write(descriptor_, bytes.data(), bytes.size()) ==
                                    static_cast<ssize_t>(bytes.size()),
            "the input can be put into memory");
  }
  ~MemorySource() { ::close(descriptor_); }
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;

  std::filesystem::path path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace ebb::fuzz
