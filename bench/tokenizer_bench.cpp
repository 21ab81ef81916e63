// How fast a tokenizer.json encodes a file on one thread. bench/peers/tokenizers.py runs it beside
// the tokenizers library on the same files and compares ids and times.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "text/bpe/bpe_tokenizer.h"

namespace {

std::string read(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A document ends at each record separator.
std::vector<std::string_view> documents_of(std::string_view text) {
  std::vector<std::string_view> documents;
  while (!text.empty()) {
    const std::size_t end = text.find('\x1e');
    documents.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return documents;
}

// Of the processor, not of the clock on the wall: others may use the machine too.
double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) {
    fmt::print("usage: tokenizer_bench TOKENIZER.json TEXT [REPEATS]; {} runs it beside a peer\n",
               "bench/peers/tokenizers.py");
    return 0;
  }
  const int repeats = count > 3 ? std::stoi(arguments[3]) : 5;
  const std::string text = read(arguments[2]);
  const std::vector<std::string_view> documents = documents_of(text);
  const std::string json = read(arguments[1]);

  const double loading = processor_seconds();
  const ebb::text::bpe::BpeTokenizer tokenizer(json, arguments[1], "");
  const double load_seconds = processor_seconds() - loading;

  double best = std::numeric_limits<double>::infinity();
  double first = 0;
  std::size_t tokens = 0;
  std::uint32_t hash = 0x811c9dc5;  // FNV-1a over 32-bit numbers, to compare ids
  for (int repeat = 0; repeat < repeats; ++repeat) {
    double seconds = 0;
    for (const std::string_view document : documents) {
      const double start = processor_seconds();
      const std::vector<std::int32_t> ids = tokenizer.encode(document);
      seconds += processor_seconds() - start;
      if (repeat > 0) continue;
      tokens += ids.size();
      for (const std::int32_t id : ids) {
        hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x01000193u;
      }
    }
    if (repeat == 0) first = seconds;
    best = std::min(best, seconds);
  }
  fmt::print(
      R"({{"bytes": {}, "tokens": {}, "hash": {}, "seconds": {:.6f}, "first": {:.6f}, "load": {:.6f}}})"
      "\n",
      text.size(), tokens, hash, best, first, load_seconds);
}
