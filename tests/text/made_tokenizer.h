// A tokenizer.json as large as one likes: characters, and tokens that are two of those before them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"

namespace ebb::text {

// `tokens` of at most 24 bytes, the first 26 of them letters; <|endoftext|> is added. The text of
// the file.
inline std::string made_tokenizer(std::size_t tokens) {
  std::vector<std::string> all;
  for (char c = 'a'; c <= 'z'; ++c) all.emplace_back(1, c);
  std::set<std::string> known(all.begin(), all.end());
  std::string vocabulary, merges;
  const CounterRng rng(3, 1);
  for (std::uint64_t draw = 0; all.size() < tokens; draw += 2) {
    const auto pick = [&](std::uint64_t at) -> const std::string& {
      return all[static_cast<std::size_t>(rng.uniform(at) * static_cast<double>(all.size()))];
    };
    const std::string& left = pick(draw);
    const std::string& right = pick(draw + 1);
    if (left.size() + right.size() > 24 || !known.insert(left + right).second) continue;
    merges += (merges.empty() ? "[\"" : ",[\"") + left + "\",\"" + right + "\"]";
    all.push_back(left + right);
  }
  for (std::size_t id = 0; id < all.size(); ++id) {
    vocabulary += (id == 0 ? "\"" : ",\"") + all[id] + "\":" + std::to_string(id);
  }
  return R"({"added_tokens": [{"id": )" + std::to_string(all.size()) +
         R"(, "content": "<|endoftext|>", "special": true}], "decoder": {"type": "Fuse"},
      "model": {"type": "BPE", "vocab": {)" +
         vocabulary + R"(}, "merges": [)" + merges + "]}}";
}

}  // namespace ebb::text
