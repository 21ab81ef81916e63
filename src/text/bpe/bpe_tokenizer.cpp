#include "text/bpe/bpe_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/digest.h"
#include "base/heap_bytes.h"
#include "base/in_quotes.h"
#include "ebb/error.h"
#include "text/bpe/utf8.h"

namespace ebb::text::bpe {

namespace {

// What decides how a text is encoded; in this order, which a digest depends on.
constexpr std::array kDecisive = {"added_tokens", "normalizer", "pre_tokenizer", "post_processor",
                                  "model"};

constexpr std::size_t kKeptScratches = 64;

constexpr std::array<std::string_view, 8> kEndsOfText = {
    "<|endoftext|>", "<|end_of_text|>", "</s>",  "<eos>",
    "<|eot_id|>",    "<|im_end|>",      "[EOS]", "<|end|>"};

std::string digest_of(const JsonPart& file, std::int32_t end_of_text) {
  Digest digest;
  for (const char* key : kDecisive) {
    // Keys are sorted and numbers have one form, so layout does not matter.
    const std::string text = file.has(key) ? file.at(key).json().dump() : "null";
    add_sized(digest, text);
  }
  digest.add(std::as_bytes(std::span(&end_of_text, 1)));
  return digest.hex();
}

}  // namespace

struct BpeTokenizer::Scratch {
  std::string repaired;
  std::array<std::string, 2> normalized;
  MatchScratch match;
  ModelScratch model;
};

class BpeTokenizer::Lease {
 public:
  explicit Lease(const BpeTokenizer& owner) : owner_(owner) {
    const std::lock_guard lock(owner.mutex_);
    if (!owner.idle_.empty()) {
      scratch_ = std::move(owner.idle_.back());
      owner.idle_.pop_back();
    }
  }
  ~Lease() {
    const std::lock_guard lock(owner_.mutex_);
    // No more than there is room for already: a destructor should not allocate.
    if (owner_.idle_.size() < owner_.idle_.capacity()) {
      owner_.idle_.push_back(std::move(scratch_));
    }
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  Scratch& get() {
    if (!scratch_) scratch_ = std::make_unique<Scratch>();
    return *scratch_;
  }

 private:
  const BpeTokenizer& owner_;
  std::unique_ptr<Scratch> scratch_;
};

BpeTokenizer::BpeTokenizer(std::string_view json, const std::string& where,
                           std::string_view end_of_text)
    : BpeTokenizer(JsonPart(parse_sorted_json(json, where), where), end_of_text) {}

BpeTokenizer::BpeTokenizer(const JsonPart& file, std::string_view end_of_text)
    : normalizer_(file),
      added_(file, normalizer_),
      pre_tokenizer_(file),
      model_(file, pre_tokenizer_.leaves_bytes()) {
  idle_.reserve(kKeptScratches);
  read_tokens(file);
  decoder_.emplace(file, tokens_);
  frame_ = read_frame(file, vocabulary());
  find_end_of_text(file, end_of_text);
  digest_ = digest_of(file, end_of_text_);
}

BpeTokenizer::~BpeTokenizer() = default;

Bytes BpeTokenizer::memory_bytes() const {
  // Patterns are compiled, and by a compiler of machine code too.
  constexpr Bytes patterns = 256 * kKiB;
  Bytes bytes = static_cast<Bytes>(sizeof(BpeTokenizer)) + patterns + model_.memory_bytes() +
                added_.memory_bytes() + decoder_->memory_bytes() + heap_bytes(tokens_) +
                heap_bytes(special_);
  for (const std::string& token : tokens_) bytes += heap_bytes(token);
  return bytes;
}

Bytes BpeTokenizer::encoding_bytes() const {
  constexpr Bytes match = 64 * kKiB;  // stacks of the patterns
  return static_cast<Bytes>(sizeof(Scratch)) + WordCache::kBytes + match;
}

void BpeTokenizer::read_tokens(const JsonPart& file) {
  std::int32_t largest = 0;
  for (const auto& [token, id] : model_.vocabulary()) largest = std::max(largest, id);
  tokens_.resize(largest + 1);
  for (const auto& [token, id] : model_.vocabulary()) tokens_[id] = token;

  // The library gives an added token that is not in the vocabulary the next free id, whatever the
  // file says. Files where that differs were not written by it, and mean something else.
  std::int64_t next = static_cast<std::int64_t>(model_.vocabulary().size());
  for (const AddedToken& token : added_.tokens()) {
    const auto found = model_.vocabulary().find(token.content);
    const bool known = found != model_.vocabulary().end();
    const std::int64_t expected = known ? found->second : next;
    if (token.id != expected) {
      file.at("added_tokens")
          .refuse(fmt::format("the added token {} has the id {} where {} {}",
                              in_quotes(token.content), token.id,
                              known ? "the vocabulary gives it" : "the next free id is", expected));
    }
    next = std::max(next, expected + 1);
    if (token.id >= tokens_.count()) {
      tokens_.resize(std::int64_t{token.id} + 1);
    }
    tokens_[token.id] = token.sought;
    if (token.special) special_.push_back(token.id);
  }
  std::sort(special_.begin(), special_.end());
}

void BpeTokenizer::find_end_of_text(const JsonPart& file, std::string_view spelled) {
  if (!spelled.empty()) {
    const auto id = id_of(spelled);
    if (!id) {
      file.refuse(
          fmt::format("the end-of-text token {} that tokenizer_config.json names is not "
                      "in the vocabulary",
                      in_quotes(spelled)));
    }
    end_of_text_ = *id;
    return;
  }
  for (const std::string_view name : kEndsOfText) {
    if (const auto id = id_of(name)) {
      end_of_text_ = *id;
      return;
    }
  }
  file.refuse(
      "no end-of-text token is known for it; name one as \"eos_token\" in tokenizer_config.json");
}

std::optional<std::int32_t> BpeTokenizer::id_of(std::string_view token) const {
  for (const AddedToken& added : added_.tokens()) {
    if (added.content == token) return added.id;
  }
  const auto found = model_.vocabulary().find(token);
  if (found == model_.vocabulary().end()) return std::nullopt;
  return found->second;
}

bool BpeTokenizer::is_special(std::int32_t id) const {
  return std::binary_search(special_.begin(), special_.end(), id);
}

std::vector<std::int32_t> BpeTokenizer::encode(Piece piece) const {
  const std::string_view text = piece.text;
  constexpr std::size_t kMostBytes = std::size_t{1} << 31;  // places in a word are 32-bit numbers
  if (text.size() >= kMostBytes) {
    throw ConfigError(
        fmt::format("a text of {} bytes is too long to be tokenized in one piece; "
                    "split it into texts below {} bytes",
                    text.size(), kMostBytes));
  }
  Lease lease(*this);
  Scratch& scratch = lease.get();
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3);
  const auto token = [&](std::int32_t id) { ids.push_back(id); };
  added_.split(
      piece.part(as_utf8(text, scratch.repaired), true), false, scratch.match,
      [&](Piece part) { encode_piece(part, scratch, ids); }, token);
  return ids;
}

void BpeTokenizer::encode_piece(Piece piece, Scratch& scratch,
                                std::vector<std::int32_t>& out) const {
  piece = normalizer_.apply(piece, scratch.normalized, scratch.match);
  const auto word = [&](std::string_view w) { model_.encode(w, scratch.model, out); };
  added_.split(
      piece, true, scratch.match, [&](Piece p) { pre_tokenizer_.split(p, scratch.match, word); },
      [&](std::int32_t id) { out.push_back(id); });
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  return decode(ids, true);
}

std::string BpeTokenizer::decode_next(std::span<const std::int32_t> ids) const {
  return decode(ids, false);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids, bool at_start) const {
  std::string text;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocabulary()) {
      throw ConfigError(
          fmt::format("token id {} is outside the vocabulary of the tokenizer, which has ids 0 to "
                      "{}; use the tokenizer the model was trained with",
                      id, vocabulary() - 1));
    }
    if (tokens_[id].empty()) continue;
    decoder_->decode(id, at_start, text);
    at_start = false;
  }
  return text;
}

}  // namespace ebb::text::bpe
