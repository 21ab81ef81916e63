// The strings of tests/golden/tokenizers, put together again as tools/golden/hard_strings.py did.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ebb::text {

inline std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

inline std::uint32_t fnv1a(std::string_view data, std::uint32_t value = 0x811c9dc5) {
  for (const char c : data) value = (value ^ static_cast<unsigned char>(c)) * 0x01000193u;
  return value;
}

inline std::uint64_t splitmix(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

inline std::vector<std::string> hard_strings(const Json& golden) {
  std::vector<std::string> parts;
  for (const Json& part : golden["fragments"]) parts.push_back(from_hex(part.get<std::string>()));
  std::vector<std::string> strings = {""};
  strings.insert(strings.end(), parts.begin(), parts.end());
  std::uint64_t state = golden["seed"];
  while (strings.size() < golden["strings"]) {
    std::string& text = strings.emplace_back();
    for (std::uint64_t count = 1 + splitmix(state) % 9; count > 0; --count) {
      const std::uint64_t number = splitmix(state);
      const std::uint64_t run = (number >> 32) % 1000;
      const int times = run < 2 ? 400 : run < 12 ? 30 : run < 40 ? 5 : 1;
      for (int i = 0; i < times; ++i) text += parts[number % parts.size()];
      if (number >> 60 < 5) text += ' ';
    }
  }
  return strings;
}

}  // namespace ebb::text
