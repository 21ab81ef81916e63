#include "states/store.h"

#include <array>
#include <cstring>

#include "base/to_size.h"
#include "kernels/split_master.h"
#include "memory/carver.h"
#include "states/convert.h"

namespace ebb::states {
namespace {

// Calls each(index) below `count`. In blocks of a length that the compiler knows: of other loops it
// makes no vectors, and splitting and joining masters took four times as long.
template <class Each>
void in_blocks(std::int64_t count, Each each) {
  constexpr std::int64_t block = 64;
  std::int64_t first = 0;
  for (; first + block <= count; first += block) {
    for (std::int64_t i = 0; i < block; ++i) each(first + i);
  }
  for (; first < count; ++first) each(first);
}

// A piece of masters as it is stored, in the staging memory.
struct Halves {
  explicit Halves(std::byte* staging)
      : high(reinterpret_cast<bf16*>(staging)),
        low(reinterpret_cast<std::int16_t*>(high + kPiece)) {}
  bf16* high;
  std::int16_t* low;
};

}  // namespace

// Calls visit(chunk, part, index within the request) for the parts of a parameter's range.
template <class Visit>
void Store::for_parts(int parameter, std::int64_t first, std::int64_t count, Visit visit) {
  for (const int c : map_.chunks_of[parameter]) {
    for (const Part& part : map_[c].parts) {
      if (part.parameter != parameter) continue;
      const std::int64_t begin = std::max(first, part.in_parameter);
      const std::int64_t end = std::min(first + count, part.in_parameter + part.count);
      if (begin >= end) continue;
      visit(c,
            Part{.parameter = parameter,
                 .in_parameter = begin,
                 .in_chunk = part.in_chunk + begin - part.in_parameter,
                 .count = end - begin},
            begin - first);
    }
  }
}

void Store::read(Plane plane, int parameter, std::int64_t first, std::int64_t count, void* to) {
  for_parts(parameter, first, count, [&](int c, const Part& part, std::int64_t out) {
    memory_.read(plane, c, part,
                 static_cast<std::byte*>(to) + plane_bytes(plane, kind_of(parameter), out));
  });
}

void Store::write(Plane plane, int parameter, std::int64_t first, std::int64_t count,
                  const void* from) {
  for_parts(parameter, first, count, [&](int c, const Part& part, std::int64_t in) {
    memory_.write(plane, c, part,
                  static_cast<const std::byte*>(from) + plane_bytes(plane, kind_of(parameter), in));
  });
}

void Store::read_plane(Plane plane, int parameter,
                       FunctionRef<void(std::span<const std::byte>)> take) {
  for_pieces(tensor(parameter).count, [&](std::int64_t first, std::int64_t n) {
    read(plane, parameter, first, n, staging_);
    take({staging_, to_size(plane_bytes(plane, kind_of(parameter), n))});
  });
}

void Store::load(StateFormat stored, PlaneReader reader) {
  // Staging memory holds the moments of a piece three times, 24 bytes for each parameter.
  constexpr std::int64_t converted = kPiece / 4;
  for (int p = 0; p < parameters(); ++p) {
    const bool converts = stored != kind_of(p).format;
    for (const Plane plane : all_planes(kind_of(p))) {
      if (converts && plane != Plane::weight && plane != Plane::low) continue;
      for_pieces(tensor(p).count, [&](std::int64_t first, std::int64_t n) {
        reader(plane, p, first, n, staging_);
        write(plane, p, first, n, staging_);
      });
    }
    if (!converts) continue;
    for_pieces(
        tensor(p).count,
        [&](std::int64_t first, std::int64_t n) { convert(stored, p, first, n, reader); },
        converted);
  }
}

// The moments of a piece, by way of fp32.
void Store::convert(StateFormat stored, int p, std::int64_t first, std::int64_t count,
                    PlaneReader reader) {
  memory::Carver staging(staging_, kStagingBytes);
  // Read as if weights were f32, which have no low halves.
  const StateKind from{stored, DType::f32, kind_of(p).moments};
  const StateKind to{kind_of(p).format, DType::f32, kind_of(p).moments};
  const auto state_of = [&](const StateKind& kind) {
    const Bytes bytes = state_bytes(kind, count);
    return static_cast<std::byte*>(std::memset(staging.take(bytes), 0, to_size(bytes)));
  };
  const auto span_of = [&](std::byte* state, const StateKind& kind) {
    return state_span(planes(state, kind, count), kind, 0, count);
  };
  std::byte* const read = state_of(from);
  std::byte* const made = state_of(to);
  auto* const first_moment = staging.take_as<float>(count);
  auto* const second_moment = staging.take_as<float>(count);
  for (const Plane plane : moment_planes(from)) {
    reader(plane, p, first, count, read + offset_of(plane, from, count));
  }
  widen_moments(span_of(read, from), first_moment, second_moment);
  narrow_moments(first_moment, second_moment, span_of(made, to));
  for (const Plane plane : moment_planes(to)) {
    write(plane, p, first, count, made + offset_of(plane, to, count));
  }
}

void Store::write_moments(int p, std::span<const float> first, std::span<const float> second) {
  // As if weights were f32, which have no low halves.
  const StateKind kind{kind_of(p).format, DType::f32, kind_of(p).moments};
  for_pieces(static_cast<std::int64_t>(first.size()), [&](std::int64_t from, std::int64_t n) {
    std::memset(staging_, 0, to_size(state_bytes(kind, n)));
    narrow_moments(first.data() + from, second.empty() ? nullptr : second.data() + from,
                   state_span(planes(staging_, kind, n), kind, 0, n));
    for (const Plane plane : moment_planes(kind)) {
      write(plane, p, from, n, staging_ + offset_of(plane, kind, n));
    }
  });
}

void Store::write_master(std::span<const int> parameters, std::int64_t first,
                         std::span<const float> values) {
  for_pieces(static_cast<std::int64_t>(values.size()), [&](std::int64_t from, std::int64_t n) {
    const float* masters = values.data() + from;
    const auto [high, low] = Halves(staging_);
    bool split = false;
    for (const int p : parameters) {
      if (kind_of(p).weight_type == DType::f32) {
        write(Plane::weight, p, first + from, n, masters);
        continue;
      }
      if (!split) {
        in_blocks(n, [=, high = high](std::int64_t i) {
          high[i] = kernels::split_master(masters[i]).high;
        });
        in_blocks(
            n, [=, low = low](std::int64_t i) { low[i] = kernels::split_master(masters[i]).low; });
        split = true;
      }
      write(Plane::weight, p, first + from, n, high);
      write(Plane::low, p, first + from, n, low);
    }
  });
}

void Store::read_master(int parameter, std::int64_t first, std::span<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  if (kind_of(parameter).weight_type == DType::f32) {
    return read(Plane::weight, parameter, first, count, values.data());
  }
  for_pieces(count, [&](std::int64_t from, std::int64_t n) {
    float* masters = values.data() + from;
    const auto [high, low] = Halves(staging_);
    read(Plane::weight, parameter, first + from, n, high);
    read(Plane::low, parameter, first + from, n, low);
    in_blocks(n, [=, high = high, low = low](std::int64_t i) {
      masters[i] = kernels::join_master(high[i], low[i]);
    });
  });
}

void Store::read_moment(Plane plane, int parameter, std::int64_t first, std::span<float> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  const StateKind& kind = kind_of(parameter);
  if (kind.format == StateFormat::exact) {
    return read(plane, parameter, first, count, values.data());
  }
  for_pieces(count, [&](std::int64_t from, std::int64_t n) {
    std::byte* moment = staging_;
    std::byte* scales = moment + plane_bytes(plane, kind, kPiece);
    read(plane, parameter, first + from, n, moment);
    if (grain_of(Plane::scales, kind).bytes > 0) {
      read(Plane::scales, parameter, first + from, n, scales);
    }
    kernels::StateSpan span{.format = kind.format, .count = n};
    (plane == Plane::first ? span.first : span.second) = moment;
    span.scales = reinterpret_cast<std::uint8_t*>(scales);
    float* wide = values.data() + from;
    plane == Plane::first ? widen_moments(span, wide, nullptr) : widen_moments(span, nullptr, wide);
  });
}

void Store::clear(std::span<const Plane> planes) {
  for (int c = 0; c < static_cast<int>(map_.chunks.size()); ++c) {
    for (const Plane plane : planes) {
      if (grain_of(plane, map_[c].kind).bytes > 0) memory_.clear(plane, c);
    }
  }
}

void Store::clear_moments() { clear(std::array{Plane::first, Plane::second, Plane::scales}); }

// Calls read(first, count, to), which returns how many bytes it has read, for the pieces. While one
// is digested, the next is read: into the two places of the staging memory behind the first, which
// the readers use.
template <class Read>
void Store::digest_pieces(Digest& digest, std::int64_t count, Read read) {
  std::span<const std::byte> last;  // empty before the first
  for_pieces(count, [&](std::int64_t first, std::int64_t n) {
    std::byte* const to = staging_ + (1 + first / kPiece % 2) * kPiece * Bytes{sizeof(float)};
    Bytes bytes = 0;
    pool_.parallel_for(2, [&](std::int64_t job, int) {
      if (job == 0) return digest.add(last);
      bytes = read(first, n, to);
    });
    last = {to, to_size(bytes)};
  });
  digest.add(last);
}

std::string Store::weights_digest() {
  Digest digest;
  for (int p = 0; p < parameters(); ++p) {
    digest_pieces(digest, tensor(p).count, [&](std::int64_t first, std::int64_t n, std::byte* to) {
      const std::span values(reinterpret_cast<float*>(to), to_size(n));
      read_master(p, first, values);
      return static_cast<Bytes>(values.size_bytes());
    });
  }
  return digest.hex();
}

std::string Store::moments_digest() {
  Digest digest;
  for (int p = 0; p < parameters(); ++p) {
    for (const Plane plane : {Plane::first, Plane::second}) {
      if (grain_of(plane, kind_of(p)).bytes == 0) continue;
      digest_pieces(digest, tensor(p).count,
                    [&](std::int64_t first, std::int64_t n, std::byte* to) {
                      const std::span values(reinterpret_cast<float*>(to), to_size(n));
                      read_moment(plane, p, first, values);
                      return static_cast<Bytes>(values.size_bytes());
                    });
    }
  }
  return digest.hex();
}

std::string Store::stored_moments_digest() {
  Digest digest;
  for (int p = 0; p < parameters(); ++p) {
    for (const Plane plane : moment_planes(kind_of(p))) {
      digest_pieces(digest, tensor(p).count,
                    [&](std::int64_t first, std::int64_t n, std::byte* to) {
                      read(plane, p, first, n, to);
                      return plane_bytes(plane, kind_of(p), n);
                    });
    }
  }
  return digest.hex();
}

}  // namespace ebb::states
