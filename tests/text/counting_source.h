// A token stream in which token i is i, so that a test can tell where a token came from.
#pragma once

#include <numeric>
#include <stdexcept>

#include "text/data/token_source.h"

namespace ebb::text {

class CountingSource : public TokenSource {
 public:
  explicit CountingSource(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  void read(std::int64_t first, std::span<std::int32_t> out) const override {
    if (first < 0 || first + static_cast<std::int64_t>(out.size()) > size_) {
      throw std::out_of_range("outside the stream");
    }
    std::iota(out.begin(), out.end(), static_cast<std::int32_t>(first));
  }
  std::string digest() const override { return "counting"; }

 private:
  std::int64_t size_;
};

}  // namespace ebb::text
