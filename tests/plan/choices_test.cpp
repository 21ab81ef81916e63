// How parameters are cut into chunks and given sites.
#include "plan/choices.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/random_work.h"

namespace ebb::plan {
namespace {

// The smallest pieces a block can be cut into, written down another way than the code does: every
// position is tried.
std::vector<std::int64_t> starts_of_pieces(const Block& block, std::int64_t grain) {
  std::vector<std::int64_t> starts;
  std::size_t tensor = 0;
  for (std::int64_t at = 0; at < block.parameters; ++at) {
    if (tensor + 1 < block.tensors.size() && block.tensors[tensor + 1].first == at) ++tensor;
    const std::int64_t within = at - block.tensors[tensor].first;
    if (within % grain == 0 && within < block.tensors[tensor].count) starts.push_back(at);
  }
  return starts;
}

std::vector<Chunk> chunks_of_block(const std::vector<Chunk>& chunks, int block) {
  std::vector<Chunk> own;
  for (const Chunk& chunk : chunks) {
    if (chunk.block == block) own.push_back(chunk);
  }
  return own;
}

TEST(Chunks, CoverEveryParameterOnceAlongLegalCuts) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const Workload work = random_workload(seed);
    for (const std::int64_t size : {1, 100, 1000, 5000, 1 << 30}) {
      const auto chunks = cut_chunks(work, {.chunk_parameters = size});
      SCOPED_TRACE(fmt::format("seed {}, chunks of {}", seed, size));
      EXPECT_TRUE(std::is_sorted(chunks.begin(), chunks.end(), [](const auto& a, const auto& b) {
        return std::pair(a.block, a.first) < std::pair(b.block, b.first);
      }));
      for (int b = 0; b < static_cast<int>(work.blocks.size()); ++b) {
        const Block& block = work.blocks[static_cast<std::size_t>(b)];
        const auto starts = starts_of_pieces(block, work.norm_block);
        std::int64_t at = 0;
        for (const Chunk& chunk : chunks_of_block(chunks, b)) {
          ASSERT_EQ(chunk.first, at) << "block " << b;
          ASSERT_TRUE(std::binary_search(starts.begin(), starts.end(), at))
              << "block " << b << " is cut at " << at;
          at += chunk.count;
          // No longer than asked for, unless it is a single piece; no shorter than it could be.
          const auto next_piece = std::upper_bound(starts.begin(), starts.end(), chunk.first);
          const bool single = next_piece == starts.end() || *next_piece >= at;
          ASSERT_TRUE(chunk.count <= size || single)
              << "block " << b << ", chunk at " << chunk.first;
          if (at < block.parameters) {
            const auto after = std::upper_bound(starts.begin(), starts.end(), at);
            const std::int64_t longer = (after == starts.end() ? block.parameters : *after);
            ASSERT_GT(longer - chunk.first, size) << "block " << b << " has a short chunk";
          }
        }
        ASSERT_EQ(at, block.parameters) << "block " << b;
      }
    }
  }
}

// Where blocks run piece by piece no chunk is of two pieces; else pieces change nothing.
TEST(Chunks, AreCutAtPiecesOfTheVocabularyWhereItIsCut) {
  int cut = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const Workload work = random_workload(seed);
    for (const std::int64_t size : {1, 500, 1 << 30}) {
      const auto chunks = cut_chunks(work, {.chunk_parameters = size, .vocabulary_cut = 1});
      for (int b = 0; b < static_cast<int>(work.blocks.size()); ++b) {
        const auto own = chunks_of_block(chunks, b);
        for (const BlockPiece& piece : work.blocks[static_cast<std::size_t>(b)].pieces) {
          if (piece.count == 0) continue;
          std::int64_t at = piece.first;
          for (const Chunk& chunk : own) {
            if (chunk.first == at && at < piece.first + piece.count) at += chunk.count;
          }
          ASSERT_EQ(at, piece.first + piece.count) << "seed " << seed << ", block " << b;
          ++cut;
        }
      }
    }
    Workload whole = work;
    for (Block& block : whole.blocks) block.pieces.clear();
    EXPECT_EQ(cut_chunks(work, {.chunk_parameters = 500}).size(),
              cut_chunks(whole, {.chunk_parameters = 500, .vocabulary_cut = 1}).size());
  }
  EXPECT_GT(cut, 100);
}

TEST(Chunks, AreWholeBlocksWhenHugeAndSinglePiecesWhenTiny) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Workload work = random_workload(seed);
    EXPECT_EQ(cut_chunks(work, {.chunk_parameters = std::int64_t{1} << 50}).size(),
              work.blocks.size());
    std::size_t pieces = 0;
    for (const Block& block : work.blocks) {
      pieces += starts_of_pieces(block, work.norm_block).size();
    }
    EXPECT_EQ(cut_chunks(work, {.chunk_parameters = 1}).size(), pieces) << "seed " << seed;
  }
}

TEST(Chunks, AreResidentThenStreamedThenOnTheHostBySharesOfTheCount) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Workload work = random_workload(seed);
    const Choices choices = random_choices(seed, work);
    SCOPED_TRACE(describe(seed, work, choices));
    const auto chunks = cut_chunks(work, choices);
    EXPECT_TRUE(std::is_sorted(chunks.begin(), chunks.end(),
                               [](const auto& a, const auto& b) { return a.site() < b.site(); }));
    const auto total = static_cast<double>(work.parameters());
    // A site's share is reached with the chunk that passes it, and not before.
    for (const auto& [sites, share] :
         {std::pair{std::set{Site::host}, choices.host_fraction},
          std::pair{std::set{Site::host, Site::stream}, choices.offload_fraction}}) {
      std::int64_t count = 0;
      std::int64_t first_chunk = 0;
      for (auto chunk = chunks.rbegin(); chunk != chunks.rend(); ++chunk) {
        if (!sites.contains(chunk->site())) break;
        count += chunk->count;
        first_chunk = chunk->count;
      }
      EXPECT_GE(static_cast<double>(count), share * total * (1 - 1e-12));
      if (share == 0) {
        EXPECT_EQ(count, 0);
      } else {
        EXPECT_LT(static_cast<double>(count - first_chunk), share * total);
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Chunks, HaveADefaultSizeThatKeepsTheirNumberModerate) {
  for (const std::int64_t parameters : {1'000LL, 10'000'000LL, 3'000'000'000LL, 70'000'000'000LL}) {
    Workload work;
    work.blocks.resize(3);
    work.blocks[1].parameters = parameters;
    const std::int64_t size = default_chunk_parameters(work);
    EXPECT_GE(size, 16 << 10) << parameters;
    EXPECT_LE(parameters / size, 4096) << parameters;
  }
}

// A chunk that is more than half beyond the share that leaves is no reason to use a disk.
TEST(Chunks, GoToTheDiskOnlyWhereAShareOfThemIsAskedFor) {
  constexpr Tier disk{2};
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Workload work = random_workload(seed);
    for (int away = 0; away <= 64; ++away) {
      const Choices choices{
          .offload_fraction = away / 64.0, .below = disk, .chunk_parameters = 1000};
      for (const Chunk& chunk : cut_chunks(work, choices)) {
        ASSERT_NE(chunk.home, disk) << "seed " << seed << ", " << away << "/64 away";
      }
    }
  }
}

}  // namespace
}  // namespace ebb::plan
