#include <zstd.h>

#include <fmt/format.h>

#include "ebb/error.h"
#include "io/unpack/unpack.h"

namespace ebb::io {
namespace {

class ZstdUnpacker final : public Unpacker {
 public:
  ZstdUnpacker() : context_(ZSTD_createDCtx()) {
    // What `zstd --long` makes: 128 MiB. Its own default, said here as it bounds the memory.
    constexpr int longest_window = 27;
    if (!context_ ||
        ZSTD_isError(ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, longest_window))) {
      throw Error("zstd cannot begin to read");
    }
  }

  Step step(std::span<const std::byte> packed, std::span<std::byte> out) override {
    ZSTD_inBuffer in{.src = packed.data(), .size = packed.size(), .pos = 0};
    ZSTD_outBuffer made{.dst = out.data(), .size = out.size(), .pos = 0};
    // Behind the end of a part, nothing to take is nothing to do: it would begin another.
    if (whole_ && packed.empty()) return {.taken = 0, .made = 0, .whole = true};
    const std::size_t result = ZSTD_decompressStream(context_.get(), &made, &in);
    if (ZSTD_isError(result)) {
      throw FormatError(
          fmt::format("this is not zstd, or it is damaged ({})", ZSTD_getErrorName(result)));
    }
    whole_ = result == 0;
    return {.taken = in.pos, .made = made.pos, .whole = whole_};
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  bool whole_ = false;
};

}  // namespace

std::unique_ptr<Unpacker> make_zstd_unpacker() { return std::make_unique<ZstdUnpacker>(); }

}  // namespace ebb::io
