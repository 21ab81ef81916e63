#include "files/model/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include <fmt/format.h>

#include "base/in_quotes.h"
#include "base/json.h"
#include "base/sorted_json.h"
#include "base/to_size.h"
#include "base/utf8.h"
#include "ebb/error.h"
#include "files/model/gguf_splits.h"

namespace ebb::files {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";
// SentencePiece makes pieces of 16 characters at most.
constexpr std::size_t kLongestPiece = 256;

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<double> types;  // of each

  bool is(std::size_t id, GgufTokenType type) const { return types[id] == static_cast<int>(type); }
};

// The id under a key, where there is one that names a token.
std::optional<std::int64_t> token_id(const GgufFiles& files, std::string_view name,
                                     std::size_t tokens) {
  const std::string key = fmt::format("tokenizer.ggml.{}_token_id", name);
  const auto id = files.try_integer(key);
  if (!id || *id == 0xffffffff || *id == -1) return std::nullopt;  // as some say that there is none
  if (*id < 0 || to_size(*id) >= tokens) {
    files.refuse(fmt::format("{} is {}, but there are {} tokens", key, *id, tokens));
  }
  return id;
}

// A number for each token; empty where the file has none. Its length is known before any is read.
std::vector<double> read_for_each_token(const GgufFiles& files, std::string_view key) {
  const std::int64_t count = files.count(key), tokens = files.count(kTokensKey);
  if (count > 0 && count != tokens) {
    files.refuse(fmt::format("{} has {} entries for {} tokens", key, count, tokens));
  }
  return files.numbers(key);
}

Vocabulary read_vocabulary(const GgufFiles& files) {
  Vocabulary found{.tokens = files.texts(kTokensKey),
                   .types = read_for_each_token(files, "tokenizer.ggml.token_type")};
  if (found.tokens.empty()) files.refuse(fmt::format("{} is missing or empty", kTokensKey));
  if (found.types.empty()) found.types.assign(found.tokens.size(), kGgufNormalToken);
  for (std::size_t i = 0; i < found.tokens.size(); ++i) {
    if (!utf8::find_invalid(found.tokens[i])) continue;
    files.refuse(
        fmt::format("{}: token {} is not UTF-8: {}", kTokensKey, i, in_quotes(found.tokens[i])));
  }
  return found;
}

SortedJson ids_of(const GgufFiles& files, const Vocabulary& vocabulary) {
  SortedJson ids = SortedJson::object();
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const auto [entry, added] =
        ids.get_ref<SortedJson::object_t&>().emplace(vocabulary.tokens[i], i);
    if (added) continue;
    files.refuse(fmt::format("{}: token {} is there twice, as {} and {}", kTokensKey,
                             in_quotes(vocabulary.tokens[i]), entry->second.dump(), i));
  }
  return ids;
}

SortedJson added_tokens(const Vocabulary& vocabulary) {
  SortedJson list = SortedJson::array();
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const bool special = vocabulary.is(i, kGgufControlToken) || vocabulary.is(i, kGgufUnknownToken);
    if (!special && !vocabulary.is(i, kGgufUserToken)) continue;
    if (vocabulary.tokens[i].empty()) continue;
    list.push_back({{"id", i},
                    {"content", vocabulary.tokens[i]},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", false},
                    {"special", special}});
  }
  return list;
}

// Pieces with scores say which of two neighbours to join first: those whose whole has the highest
// score. As merges that is every way to cut a piece into two, by score; of equal scores the lower
// id goes first, as in the tokenizer.json files that transformers makes of such pieces.
SortedJson merges_by_score(const GgufFiles& files, const Vocabulary& vocabulary) {
  const std::vector<double> scores = read_for_each_token(files, "tokenizer.ggml.scores");
  if (scores.empty()) files.refuse("tokenizer.ggml.scores is missing or empty");
  std::unordered_map<std::string_view, std::size_t> pieces;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.is(i, kGgufNormalToken)) order.push_back(i);
    if (vocabulary.is(i, kGgufNormalToken) || vocabulary.is(i, kGgufUserToken)) {
      pieces.emplace(vocabulary.tokens[i], i);
    }
  }
  std::ranges::stable_sort(order,
                           [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  SortedJson merges = SortedJson::array();
  Bytes bytes = 0;
  for (const std::size_t i : order) {
    const std::string_view piece = vocabulary.tokens[i];
    if (piece.size() > kLongestPiece) {
      files.refuse(fmt::format("{}: token {} has {} bytes; a piece may have {}", kTokensKey, i,
                               piece.size(), kLongestPiece));
    }
    for (std::size_t cut = 1; cut < piece.size(); ++cut) {
      if (!utf8::begins_character(piece[cut])) continue;
      const std::string_view left = piece.substr(0, cut);
      const std::string_view right = piece.substr(cut);
      if (!pieces.contains(left) || !pieces.contains(right)) continue;
      bytes += static_cast<Bytes>(piece.size()) + 8;
      merges.push_back(SortedJson::array({left, right}));
    }
    if (bytes > text::kTokenizerBytes) files.refuse("its pieces can be joined in too many ways");
  }
  return merges;
}

// What is put before and behind every text.
SortedJson post_processor(const std::optional<std::int64_t>& before,
                          const std::optional<std::int64_t>& behind,
                          const std::vector<std::string>& tokens) {
  SortedJson single = SortedJson::array();
  SortedJson special = SortedJson::object();
  const auto add = [&](const std::optional<std::int64_t>& id) {
    if (!id) return;
    const std::string& token = tokens[to_size(*id)];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {
        {"id", token}, {"ids", SortedJson::array({*id})}, {"tokens", SortedJson::array({token})}};
  };
  add(before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(behind);
  SortedJson pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", pair},
          {"special_tokens", special}};
}

SortedJson replace(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

// Whether a begin-of-text token is wanted where the file does not say.
bool adds_begin(const GgufFiles& files, bool otherwise) {
  return files.try_boolean("tokenizer.ggml.add_bos_token").value_or(otherwise);
}

void add_byte_level(const GgufFiles& files, const Vocabulary&, SortedJson& json, bool& begins) {
  const auto pre = files.try_text("tokenizer.ggml.pre");
  const GgufSplit* split = pre ? find_gguf_split(*pre) : nullptr;
  if (split == nullptr) {
    files.refuse(fmt::format(
        "tokenizer.ggml.pre {}; Ebb knows how {} split texts. Convert the model anew with a newer "
        "tool, or give --tokenizer FOLDER with its tokenizer.json",
        pre ? fmt::format("{} is not supported", in_quotes(*pre)) : "is missing",
        gguf_split_names()));
  }
  json["normalizer"] = split->nfc ? SortedJson{{"type", "NFC"}} : SortedJson();
  json["pre_tokenizer"] = gguf_pre_tokenizer(*split);
  json["decoder"] = {{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"trim_offsets", true},
                     {"use_regex", false}};
  SortedJson& model = json["model"];
  model["ignore_merges"] = split->whole_words;
  if (files.count(kMergesKey) == 0) {
    files.refuse(
        fmt::format("{} is missing or empty; get the file again, or convert the model "
                    "anew",
                    kMergesKey));
  }
  model["merges"] = SortedJson::array();
  files.visit_texts(kMergesKey, [&](std::string merge) {
    if (utf8::find_invalid(merge)) {
      files.refuse(fmt::format("{}: {} is not UTF-8", kMergesKey, in_quotes(merge)));
    }
    model["merges"].push_back(std::move(merge));
  });
  begins = adds_begin(files, split->begins);
}

void add_pieces(const GgufFiles& files, const Vocabulary& vocabulary, SortedJson& json,
                bool& begins) {
  if (files.try_boolean("tokenizer.ggml.remove_extra_whitespaces").value_or(false)) {
    files.refuse("tokenizer.ggml.remove_extra_whitespaces is not supported");
  }
  if (files.find_value("tokenizer.ggml.precompiled_charsmap") != nullptr) {
    files.refuse("tokenizer.ggml.precompiled_charsmap is not supported");
  }
  const bool prefix = files.try_boolean("tokenizer.ggml.add_space_prefix").value_or(true);
  SortedJson normalizers = SortedJson::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kGgufSpace}});
  normalizers.push_back(replace(" ", kGgufSpace));
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  json["pre_tokenizer"] = nullptr;
  SortedJson decoders =
      SortedJson::array({replace(kGgufSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (prefix) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  SortedJson& model = json["model"];
  model["byte_fallback"] = true;
  model["fuse_unk"] = true;
  if (const auto id = token_id(files, "unknown", vocabulary.tokens.size())) {
    model["unk_token"] = vocabulary.tokens[to_size(*id)];
  }
  model["merges"] = merges_by_score(files, vocabulary);
  begins = adds_begin(files, true);
}

}  // namespace

Bytes gguf_tokenizer_bytes(const GgufFiles& files) {
  return files.list_bytes(kTokensKey) + files.list_bytes(kMergesKey);
}

bool gguf_tokens_are_bytes(const GgufFiles& files) {
  return files.try_text(kGgufBytesKey) == "bytes";
}

text::TokenizerTexts gguf_tokenizer(const GgufFiles& files) {
  const auto model = files.try_text("tokenizer.ggml.model");
  if (model != "gpt2" && model != "llama") {
    files.refuse(
        fmt::format("tokenizer.ggml.model {}; gpt2 and llama are. Give --tokenizer FOLDER with a "
                    "tokenizer.json, or --tokenizer bytes",
                    model ? fmt::format("{} is not supported", in_quotes(*model)) : "is missing"));
  }
  const Vocabulary vocabulary = read_vocabulary(files);
  const std::size_t count = vocabulary.tokens.size();
  SortedJson json{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}};
  json["model"] = {{"type", "BPE"}, {"vocab", ids_of(files, vocabulary)}};
  json["added_tokens"] = added_tokens(vocabulary);
  bool begins = false;
  (model == "gpt2" ? add_byte_level : add_pieces)(files, vocabulary, json, begins);
  SortedJson config{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  for (const std::string_view name : {"bos", "eos", "unknown", "padding"}) {
    const std::string key = name == "unknown"   ? "unk_token"
                            : name == "padding" ? "pad_token"
                                                : fmt::format("{}_token", name);
    if (const auto id = token_id(files, name, count)) config[key] = vocabulary.tokens[to_size(*id)];
  }
  const auto bos = token_id(files, "bos", count);
  const auto eos = token_id(files, "eos", count);
  const bool ends = files.try_boolean("tokenizer.ggml.add_eos_token").value_or(false);
  if (begins && !bos) {
    files.refuse("a text should begin with a token, but tokenizer.ggml.bos_token_id is missing");
  }
  if (ends && !eos) {
    files.refuse("a text should end with a token, but tokenizer.ggml.eos_token_id is missing");
  }
  json["post_processor"] =
      post_processor(begins ? bos : std::nullopt, ends ? eos : std::nullopt, vocabulary.tokens);
  text::TokenizerTexts texts;
  texts[text::kTokenizerFile] = json.dump();
  texts[text::kTokenizerConfigFile] = config.dump(2);
  if (auto chat = files.try_text("tokenizer.chat_template")) {
    texts[text::kChatTemplateFile] = std::move(*chat);
  }
  return texts;
}

void add_gguf_token_ids(const GgufFiles& files, Json& config) {
  const auto tokens = to_size(files.count(kTokensKey));
  if (const auto id = token_id(files, "bos", tokens)) config["bos_token_id"] = *id;
  Json ends = Json::array();
  const auto add = [&](std::int64_t id) {
    if (std::find(ends.begin(), ends.end(), Json(id)) == ends.end()) ends.push_back(id);
  };
  for (const std::string_view name : {"eos", "eot", "eom"}) {
    if (const auto id = token_id(files, name, tokens)) add(*id);
  }
  // Files of older tools name the end of a text only; a chat's turns end with one of these.
  constexpr std::array<std::string_view, 4> turns = {"<|eot_id|>", "<|im_end|>", "<end_of_turn>",
                                                     "<|end|>"};
  if (!ends.empty()) {
    std::int64_t id = 0;
    files.visit_texts(kTokensKey, [&](const std::string& token) {
      if (std::ranges::find(turns, token) != turns.end()) add(id);
      ++id;
    });
  }
  if (ends.size() == 1) config["eos_token_id"] = ends.front();
  if (ends.size() > 1) config["eos_token_id"] = ends;
}

}  // namespace ebb::files
