// A tokenizer.json, and a text behind it: what it makes of the text, and back.
#include <algorithm>

#include "base/sorted_json.h"
#include "fuzz/parts.h"
#include "fuzz/target.h"
#include "text/bpe/bpe_tokenizer.h"
#include "text/bpe/byte_alphabet.h"
#include "text/bpe/utf8.h"

namespace ebb::fuzz {
namespace {

// As for any JSON, and beside it for "a":0, a token in the vocabulary and a list, and what it
// decodes to twice: up to 256 bytes for a short one, in a string that grows by doubling.
constexpr Bytes kBytesPerByte = 300;
// Tables over the characters and the 65,536 ids that any file may use, and the cache of words.
constexpr Bytes kTables = 16 * kMiB;
// A normalizer may make 64 bytes of one, and merging takes several numbers for each.
constexpr Bytes kBytesPerByteOfText = 64 * 64;
constexpr std::size_t kLongestText = 64 * 1024;
// Patterns may take some hundred steps for each byte of a text, in each of 32 steps over it.
constexpr double kMicrosecondsPerByteOfText = 1000;

// Whether the file is nothing but bytes and their merges, all of the text's among them: then its
// words come back as they were.
bool keeps(const text::Tokenizer& tokenizer, std::string_view json, std::string_view text) {
  const SortedJson file = parse_sorted_json(json, "tokenizer.json");
  const auto member = [](const SortedJson& json, const char* key) {
    return json.is_object() && json.contains(key) ? json[key] : SortedJson();
  };
  const SortedJson splitting = member(file, "pre_tokenizer");
  return member(file, "added_tokens").empty() && member(file, "normalizer").empty() &&
         member(splitting, "type") == "ByteLevel" &&
         member(splitting, "add_prefix_space") == false &&
         member(member(file, "decoder"), "type") == "ByteLevel" &&
         text::bpe::valid_bytes(text) == text.size() &&
         std::all_of(text.begin(), text.end(), [&](char byte) {
           return tokenizer.id_of(text::bpe::spell_bytes(std::string(1, byte))).has_value();
         });
}

void check_ids(const text::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  require(std::all_of(ids.begin(), ids.end(),
                      [&](std::int32_t id) { return id >= 0 && id < tokenizer.vocabulary(); }),
          "ids are in the vocabulary");
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  const auto body = [](std::string_view input) {
    const auto [json, behind] = two_parts(input);
    const std::string_view text = behind.substr(0, kLongestText);
    const text::bpe::BpeTokenizer tokenizer(json, "tokenizer.json", "");
    require(json.find('\0') == std::string_view::npos, "nothing is hidden behind a zero byte");
    check_ids(tokenizer, {tokenizer.end_of_text()});
    check_ids(tokenizer, tokenizer.prefix());
    check_ids(tokenizer, tokenizer.suffix());

    const std::vector<std::int32_t> ids = tokenizer.encode(text);
    check_ids(tokenizer, ids);
    require(tokenizer.encode(text) == ids, "words that are remembered are encoded as before");
    std::string one_by_one;
    for (const std::int32_t id : ids) one_by_one += tokenizer.decode_next({&id, 1});
    require(tokenizer.decode_next(ids) == one_by_one, "a text comes back token by token");
    const std::string decoded = tokenizer.decode(ids);
    if (keeps(tokenizer, json, text)) require(decoded == text, "bytes come back as they were");
  };
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t text_bytes = std::min(two_parts(input).second.size(), kLongestText);
  return run(
      data, size,
      {.bytes_per_byte = kBytesPerByte,
       .free_bytes = kTables + kBytesPerByteOfText * static_cast<Bytes>(text_bytes),
       .free_seconds = 1 + 1e-6 * kMicrosecondsPerByteOfText * static_cast<double>(text_bytes)},
      body);
}
