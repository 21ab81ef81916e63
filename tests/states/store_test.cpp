// A store gives back what was written, and its digests know nothing of how parameters are cut.
#include "states/store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/rng.h"
#include "kernels/optimizer_ops.h"
#include "states/updates.h"

namespace ebb::states {
namespace {

constexpr std::int64_t kBlock = kernels::kNormBlock;

// Chunks in memory of their own: the state in one piece, the weights beside it.
class HeapMemory : public ChunkMemory {
 public:
  explicit HeapMemory(const ChunkMap& map) : map_(map) {
    for (const Chunk& chunk : map.chunks) {
      states_.emplace_back(static_cast<std::size_t>(chunk.state_bytes()));
      weights_.emplace_back(static_cast<std::size_t>(chunk.weight_bytes()));
    }
  }
  void read(Plane plane, int c, const Part& part, void* to) override {
    std::memcpy(to, address(plane, c, part.in_chunk), bytes(plane, c, part.count));
  }
  void write(Plane plane, int c, const Part& part, const void* from) override {
    std::memcpy(address(plane, c, part.in_chunk), from, bytes(plane, c, part.count));
  }
  void clear(Plane plane, int c) override {
    std::memset(address(plane, c, 0), 0, bytes(plane, c, map_[c].count));
  }

 private:
  std::size_t bytes(Plane plane, int c, std::int64_t count) const {
    return static_cast<std::size_t>(plane_bytes(plane, map_[c].kind, count));
  }
  std::byte* address(Plane plane, int c, std::int64_t in_chunk) {
    const auto i = static_cast<std::size_t>(c);
    if (plane == Plane::weight) {
      return weights_[i].data() + plane_bytes(plane, map_[c].kind, in_chunk);
    }
    return states_[i].data() + map_[c].offset(plane, in_chunk);
  }

  const ChunkMap& map_;
  std::vector<std::vector<std::byte>> states_;
  std::vector<std::vector<std::byte>> weights_;
};

// Three parameters one behind the other, the second longer than a piece.
ChunkMap map_of(const StateKind& kind, std::int64_t chunk_parameters) {
  Run run;
  std::vector<Tensor> tensors;
  std::int64_t length = 0;
  for (const std::int64_t count : {kBlock + 5, kPiece + 3 * kBlock + 131, std::int64_t{1}}) {
    run.parameters.push_back(static_cast<int>(tensors.size()));
    run.places.push_back({length, count});
    tensors.push_back({.count = count, .kind = kind, .key = tensors.size()});
    length += kernels::state_blocks(count) * kernels::kStateBlock;
  }
  ChunkMap map = map_tensors(std::move(tensors));
  for (std::int64_t first = 0, end = 0; first < length; first = end) {
    end = next_cut(run.places, length, kBlock, first, chunk_parameters);
    add_chunk(map, run, first, end - first);
  }
  return map;
}

struct Training {
  Training(const StateKind& kind, std::int64_t chunk_parameters)
      : map(map_of(kind, chunk_parameters)) {}

  // Masters that fill low halves, too, and moments of the store's format.
  void fill() {
    const CounterRng rng(7, 0);
    for (int p = 0; p < 3; ++p) {
      const std::int64_t count = map.tensors[static_cast<std::size_t>(p)].count;
      std::vector<float> values(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(rng.uniform(i + 100) - 0.5);
      }
      store.write_master(p, 0, values);
      for (const Plane plane : moment_planes(store.kind_of(p))) {
        std::vector<std::byte> bytes(
            static_cast<std::size_t>(plane_bytes(plane, store.kind_of(p), count)));
        for (std::size_t i = 0; i < bytes.size(); ++i) {
          // Any code will do, and any number that is finite: of floats each byte but the last two.
          const bool code = store.kind_of(p).format == StateFormat::int8;
          const std::size_t of_float = store.kind_of(p).format == StateFormat::bf16 ? 2 : 4;
          const bool exponent = !code && i % of_float == of_float - 1;
          bytes[i] = static_cast<std::byte>(exponent ? 0x3c : i * 31 % 120);
        }
        store.write(plane, p, 0, count, bytes.data());
      }
    }
  }

  ChunkMap map;
  HeapMemory memory{map};
  ThreadPool pool{2};
  std::vector<std::byte> staging =
      std::vector<std::byte>(static_cast<std::size_t>(Store::kStagingBytes));
  Store store{map, memory, pool, staging.data()};
};

constexpr StateKind kKinds[] = {{StateFormat::exact, DType::bf16, 2},
                                {StateFormat::exact, DType::f32, 1},
                                {StateFormat::bf16, DType::bf16, 2},
                                {StateFormat::int8, DType::f32, 2}};

std::string text_of(const StateKind& kind) {
  return std::string(kernels::name_of(kind.format)) +
         (kind.weight_type == DType::bf16 ? " bf16" : " f32");
}

TEST(ChunkMap, CoversEveryParameterOnceAndCutsNoBlock) {
  for (const std::int64_t size : {kBlock, 2 * kBlock + 128, std::int64_t{1} << 30}) {
    const ChunkMap map = map_of(kKinds[0], size);
    std::int64_t squares = 0;
    for (int p = 0; p < 3; ++p) {
      const Tensor& tensor = map.tensors[static_cast<std::size_t>(p)];
      std::int64_t done = 0;
      for (const int c : map.chunks_of[static_cast<std::size_t>(p)]) {
        for (const Part& part : map[c].parts) {
          if (part.parameter != p) continue;
          EXPECT_EQ(part.in_parameter, done);
          EXPECT_EQ(part.in_parameter % kBlock, 0);
          EXPECT_EQ(part.in_chunk % kernels::kStateBlock, 0);
          EXPECT_EQ(map.first_square(part), squares + done / kBlock);
          done += part.count;
        }
      }
      EXPECT_EQ(done, tensor.count);
      squares += kernels::norm_blocks(tensor.count);
    }
    EXPECT_EQ(map.squares, squares);
  }
}

TEST(Store, CutsChangeNoDigestAndNoByte) {
  for (const StateKind& kind : kKinds) {
    SCOPED_TRACE(text_of(kind));
    Training whole(kind, std::int64_t{1} << 30);
    whole.fill();
    Training cut(kind, kBlock);
    cut.store.load(kind.format, [&](Plane plane, int p, std::int64_t first, std::int64_t count,
                                    void* to) { whole.store.read(plane, p, first, count, to); });
    EXPECT_EQ(cut.store.weights_digest(), whole.store.weights_digest());
    EXPECT_EQ(cut.store.moments_digest(), whole.store.moments_digest());
    EXPECT_EQ(cut.store.stored_moments_digest(), whole.store.stored_moments_digest());
    // Digests are those of the values in order.
    Digest masters;
    Digest stored;
    for (int p = 0; p < 3; ++p) {
      std::vector<float> values(
          static_cast<std::size_t>(cut.map.tensors[static_cast<std::size_t>(p)].count));
      cut.store.read_master(p, 0, values);
      masters.add(std::as_bytes(std::span(values)));
      for (const Plane plane : moment_planes(kind)) {
        cut.store.read_plane(plane, p,
                             [&](std::span<const std::byte> piece) { stored.add(piece); });
      }
    }
    EXPECT_EQ(cut.store.weights_digest(), masters.hex());
    EXPECT_EQ(cut.store.stored_moments_digest(), stored.hex());
    cut.store.clear_moments();
    EXPECT_EQ(cut.store.weights_digest(), whole.store.weights_digest());
    EXPECT_NE(cut.store.moments_digest(), whole.store.moments_digest());
    EXPECT_EQ(cut.store.stored_moments_digest(),
              Training(kind, kBlock).store.stored_moments_digest());
  }
}

// Into exact moments nothing is lost. Of bf16 ones, what comes back is what was there; blocks of
// int8 may get another scale.
TEST(Store, ConvertsMomentsWithoutLoss) {
  for (const StateFormat format : {StateFormat::bf16, StateFormat::int8}) {
    SCOPED_TRACE(kernels::name_of(format));
    Training compact({format, DType::bf16, 2}, kBlock);
    compact.fill();
    const auto load = [](Store& to, Store& from) {
      to.load(from.kind_of(0).format,
              [&](Plane plane, int p, std::int64_t first, std::int64_t count, void* place) {
                from.read(plane, p, first, count, place);
              });
    };
    Training exact({StateFormat::exact, DType::bf16, 2}, 5 * kBlock);
    load(exact.store, compact.store);
    EXPECT_EQ(exact.store.weights_digest(), compact.store.weights_digest());
    EXPECT_EQ(exact.store.moments_digest(), compact.store.moments_digest());
    if (format == StateFormat::int8) continue;
    Training again({format, DType::bf16, 2}, 3 * kBlock);
    load(again.store, exact.store);
    EXPECT_EQ(again.store.moments_digest(), compact.store.moments_digest());
  }
}

// Spans of a chunk know their parameter's key, place and decay.
TEST(UpdatesOf, NamesThePartsOfAChunk) {
  Training run(kKinds[0], kBlock);
  run.map.tensors[1].decays = false;
  const UpdateNumbers numbers = update_numbers(AdamW{}, 1e-3, 1, 5);
  for (std::int64_t c = 0; c < static_cast<std::int64_t>(run.map.chunks.size()); ++c) {
    const Chunk& chunk = run.map[c];
    std::vector<std::byte> state(static_cast<std::size_t>(chunk.state_bytes()));
    std::vector<std::byte> weight(static_cast<std::size_t>(chunk.weight_bytes()));
    const auto updates =
        updates_of(run.map, c, state.data(), numbers, PartMemory{weight.data(), weight.data()});
    ASSERT_EQ(updates.size(), chunk.parts.size());
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const Part& part = chunk.parts[i];
      EXPECT_EQ(updates[i].span.tensor_key, run.map.of(part).key);
      EXPECT_EQ(updates[i].span.first_element, part.in_parameter);
      EXPECT_EQ(updates[i].span.count, part.count);
      EXPECT_EQ(updates[i].span.weight, weight.data() + 2 * part.in_chunk);
      const float factor = std::get<kernels::AdamWStep>(updates[i].step).decay_factor;
      EXPECT_EQ(factor == 1.0f, !run.map.of(part).decays);
    }
  }
}

}  // namespace
}  // namespace ebb::states
