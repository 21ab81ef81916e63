#include <zlib.h>

#include <algorithm>

#include <fmt/format.h>

#include "ebb/error.h"
#include "io/unpack/unpack.h"

namespace ebb::io {
namespace {

class GzipUnpacker final : public Unpacker {
 public:
  GzipUnpacker() {
    constexpr int gzip_alone = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, gzip_alone) != Z_OK) throw Error("zlib cannot begin to read");
  }
  ~GzipUnpacker() override { inflateEnd(&stream_); }
  GzipUnpacker(const GzipUnpacker&) = delete;
  GzipUnpacker& operator=(const GzipUnpacker&) = delete;

  Step step(std::span<const std::byte> packed, std::span<std::byte> out) override {
    if (ended_ && !packed.empty()) {
      // Tapes and block devices fill up with zeros; all else is another part.
      const auto zeros = std::ranges::find_if(packed, [](std::byte b) { return b != std::byte{}; });
      const auto padding = static_cast<std::size_t>(zeros - packed.begin());
      padded_ = padded_ || padding > 0;
      if (padding == packed.size()) return {.taken = padding, .made = 0, .whole = true};
      if (padded_) throw FormatError("behind the end of what is compressed is something else");
      if (inflateReset(&stream_) != Z_OK) throw Error("zlib cannot go on");
      ended_ = false;
    }
    // zlib's interface does not say const, and takes counts of 32 bits; pieces are short.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    if (!ended_) {
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        ended_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw FormatError(fmt::format("this is not gzip, or it is damaged ({})",
                                      stream_.msg != nullptr ? stream_.msg : "no reason given"));
      }
    }
    return {.taken = packed.size() - stream_.avail_in,
            .made = out.size() - stream_.avail_out,
            .whole = ended_};
  }

 private:
  z_stream stream_{};
  bool ended_ = false;   // a part has ended
  bool padded_ = false;  // with zeros behind it
};

}  // namespace

std::unique_ptr<Unpacker> make_gzip_unpacker() { return std::make_unique<GzipUnpacker>(); }

}  // namespace ebb::io
