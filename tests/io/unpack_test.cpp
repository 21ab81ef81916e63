// Compressed files: what they hold, and what is wrong with them.
#include "io/unpack/unpack.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/rng.h"
#include "ebb/error.h"
#include "io/memory_file.h"
#include "io/packed.h"

namespace ebb::io {
namespace {

struct Case {
  Compression compression;
  const char* name;
  std::string (*pack)(std::string_view);
};

void PrintTo(const Case& of, std::ostream* out) { *out << of.name; }

class UnpackTest : public testing::TestWithParam<Case> {
 protected:
  // `taken` of the file's bytes are handed on, too.
  std::string unpacked(const std::string& packed) {
    MemoryFile file(GetParam().name, std::make_shared<const std::string>(packed));
    std::string text;
    taken.clear();
    unpack(
        file, GetParam().compression,
        [&](std::span<const std::byte> in) {
          taken.append(reinterpret_cast<const char*>(in.data()), in.size());
        },
        [&](std::span<const std::byte> out) {
          text.append(reinterpret_cast<const char*>(out.data()), out.size());
          longest = std::max(longest, text.size());
        });
    return text;
  }

  std::string refusal(const std::string& packed) {
    try {
      unpacked(packed);
    } catch (const FormatError& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  std::string pack(std::string_view text) const { return GetParam().pack(text); }

  std::string taken;
  std::size_t longest = 0;
};

// Text of words, and bytes that do not shrink.
std::string text_of(std::uint64_t seed, std::size_t bytes) {
  const CounterRng rng(seed, 7);
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    text += seed % 2 == 0 ? fmt::format("word{} ", rng.below(i, 5000))
                          : std::string(1, static_cast<char>(rng.below(i, 256)));
  }
  text.resize(bytes);
  return text;
}

TEST_P(UnpackTest, GivesBackEveryByte) {
  for (const std::size_t bytes : {0u, 1u, 100u, 262143u, 262144u, 262145u, 1000003u}) {
    const std::string text = text_of(bytes, bytes);
    const std::string packed = pack(text);
    EXPECT_TRUE(unpacked(packed) == text) << bytes;
    EXPECT_TRUE(taken == packed) << bytes;
  }
}

TEST_P(UnpackTest, ReadsPartsBehindEachOther) {
  const std::string packed = pack("one\n") + pack("") + pack("two\n") + pack(text_of(2, 300000));
  EXPECT_TRUE(unpacked(packed) == "one\ntwo\n" + text_of(2, 300000));
}

TEST_P(UnpackTest, NamesFilesThatAreCutShort) {
  const std::string packed = pack(text_of(3, 2000)) + pack(text_of(4, 2000));
  const std::size_t border = pack(text_of(3, 2000)).size();
  for (std::size_t size = 1; size < packed.size(); size += 97) {
    if (size == border) continue;
    const std::string message = refusal(packed.substr(0, size));
    EXPECT_NE(message.find("cut short"), std::string::npos) << size << ": " << message;
    EXPECT_NE(message.find(GetParam().name), std::string::npos) << message;
  }
}

TEST_P(UnpackTest, NamesFilesThatAreDamaged) {
  const std::string text = text_of(6, 20000);
  const std::string packed = pack(text);
  int tried = 0;
  int refused = 0;
  for (std::size_t at = 12; at + 1 < packed.size(); at += packed.size() / 23) {
    std::string bad = packed;
    bad[at] = static_cast<char>(bad[at] ^ 0x55);
    ++tried;
    try {
      // zstd's checksum is optional: what is damaged may be taken for other text, and no more.
      (void)unpacked(bad);
    } catch (const FormatError& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find(GetParam().name), std::string::npos);
    }
  }
  EXPECT_GT(refused, 0);
  if (GetParam().compression == Compression::gzip) {
    EXPECT_EQ(refused, tried);
  }
  EXPECT_NE(refusal("this is plain text, whatever its name").find("damaged"), std::string::npos);
  EXPECT_NE(refusal(pack("text") + "and more").find("damaged"), std::string::npos);
}

// A megabyte of what becomes gigabytes is refused while little of it has come out.
TEST_P(UnpackTest, BombsAreBounded) {
  std::string packed = pack(std::string(std::size_t{1} << 23, 'x'));
  for (int i = 0; i < 6; ++i) packed += packed;
  const std::string message = refusal(packed);
  EXPECT_NE(message.find("500 times"), std::string::npos) << message;
  EXPECT_LT(longest, std::size_t{200} << 20);
}

INSTANTIATE_TEST_SUITE_P(Kinds, UnpackTest,
                         testing::Values(Case{Compression::gzip, "a.gz", gzip_of},
                                         Case{Compression::zstd, "a.zst", zstd_of}),
                         [](const auto& info) {
                           return info.param.compression == Compression::gzip ? "gzip" : "zstd";
                         });

TEST(Gzip, ZerosBehindTheEndAreNothing) {
  const auto packed =
      std::make_shared<const std::string>(gzip_of("text") + std::string(3000, '\0'));
  MemoryFile file("a.gz", packed);
  std::string text;
  unpack(
      file, Compression::gzip, [](auto) {},
      [&](std::span<const std::byte> out) {
        text.append(reinterpret_cast<const char*>(out.data()), out.size());
      });
  EXPECT_EQ(text, "text");
}

TEST(Compression, IsKnownByTheName) {
  EXPECT_EQ(compression_of("a/b.jsonl.gz"), Compression::gzip);
  EXPECT_EQ(compression_of("b.txt.zst"), Compression::zstd);
  EXPECT_EQ(compression_of("b.zstd"), Compression::zstd);
  EXPECT_EQ(compression_of("gz"), Compression::none);
  EXPECT_EQ(unpacked_name("a/b.jsonl.gz"), "a/b.jsonl");
  EXPECT_EQ(unpacked_name("a.gz/b.jsonl"), "a.gz/b.jsonl");
  EXPECT_EQ(compression_of_bytes(gzip_of("a")), Compression::gzip);
  EXPECT_EQ(compression_of_bytes(zstd_of("a")), Compression::zstd);
}

}  // namespace
}  // namespace ebb::io
