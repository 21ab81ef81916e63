// How libFuzzer changes an input: as it always does, and now and then by saying a part of it many
// times. Inputs get long that way, and what takes time in the square of their length shows.
#include <algorithm>
#include <cstring>
#include <random>

#include "fuzz/target.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  constexpr unsigned kOneIn = 64;
  constexpr std::size_t kLongestPart = 64;
  std::minstd_rand random(seed);
  const auto below = [&](std::size_t bound) { return random() % bound; };
  if (size == 0 || size >= most || below(kOneIn) != 0) return LLVMFuzzerMutate(data, size, most);
  const std::size_t begin = below(size);
  const std::size_t part = 1 + below(std::min(kLongestPart, size - begin));
  // Any order of magnitude is as likely as the others.
  std::size_t room = most - size;
  while (room > 256 && below(2) == 0) room /= 4;
  const std::size_t added = room / part * part;
  std::memmove(data + begin + added, data + begin, size - begin);
  for (std::size_t at = begin; at < begin + added; at += part) {
    std::memcpy(data + at, data + begin + added, part);
  }
  return size + added;
}
