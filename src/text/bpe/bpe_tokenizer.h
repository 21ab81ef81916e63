// A tokenizer from a tokenizer.json, in exact agreement with the tokenizers library: byte-level BPE
// (GPT-2, Llama 3, Qwen) and BPE over characters with byte fallback (Llama 2, Mistral, Gemma).
//
// A text goes through the files of this folder in this order: added_tokens (those that are looked
// for in the text as it is), normalizer, added_tokens (the others), pre_tokenizer, model.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/list.h"
#include "text/bpe/added_tokens.h"
#include "text/bpe/decoder.h"
#include "text/bpe/frame.h"
#include "text/bpe/json_part.h"
#include "text/bpe/model.h"
#include "text/bpe/normalizer.h"
#include "text/bpe/pre_tokenizer.h"
#include "text/tokenizer.h"

namespace ebb::text::bpe {

class BpeTokenizer final : public Tokenizer {
 public:
  // `json` is the content of a tokenizer.json, whose name `where` is for errors. Truncation and
  // padding are not a tokenizer's business here and not looked at. `end_of_text` is a token's
  // spelling; empty: the first of those that models use. Throws FormatError for what is not
  // supported or does not fit together.
  BpeTokenizer(std::string_view json, const std::string& where, std::string_view end_of_text);
  ~BpeTokenizer() override;

  // Throws ConfigError for a text of 2 GiB or more, FormatError where the text meets what makes
  // the file's patterns give up.
  std::vector<std::int32_t> encode(std::string_view text) const override {
    return encode({text, true, false});
  }
  std::vector<std::int32_t> encode_next(std::string_view text) const override {
    return encode({text, false, true});
  }
  // Behind an added token that is looked for before anything else is done to the text.
  std::size_t last_break(std::string_view text) const override { return added_.last_end(text); }
  std::vector<std::int32_t> encode_after_break(std::string_view text) const override {
    return encode({text, false, false});
  }
  std::vector<std::int32_t> prefix() const override { return frame_.prefix; }
  std::vector<std::int32_t> suffix() const override { return frame_.suffix; }
  std::string decode(std::span<const std::int32_t> ids) const override;
  std::string decode_next(std::span<const std::int32_t> ids) const override;
  std::int32_t vocabulary() const override { return static_cast<std::int32_t>(tokens_.size()); }
  std::int32_t end_of_text() const override { return end_of_text_; }
  std::string name() const override { return "bpe"; }
  bool is_special(std::int32_t id) const override;
  std::optional<std::int32_t> id_of(std::string_view token) const override;
  std::string digest() const override { return digest_; }
  Bytes memory_bytes() const override;
  Bytes encoding_bytes() const override;

 private:
  struct Scratch;
  class Lease;

  BpeTokenizer(const JsonPart& file, std::string_view end_of_text);
  void read_tokens(const JsonPart& file);
  void find_end_of_text(const JsonPart& file, std::string_view spelled);
  std::vector<std::int32_t> encode(Piece text) const;
  void encode_piece(Piece piece, Scratch& scratch, std::vector<std::int32_t>& out) const;
  std::string decode(std::span<const std::int32_t> ids, bool at_start) const;

  Normalizer normalizer_;
  AddedTokens added_;
  PreTokenizer pre_tokenizer_;
  Model model_;
  List<std::string> tokens_;  // spelled, by id; empty where an id has none
  std::optional<Decoder> decoder_;
  Frame frame_;
  std::vector<std::int32_t> special_;  // ids, in order
  std::int32_t end_of_text_ = 0;
  std::string digest_;

  // What threads that encode at the same time need each; kept for the next ones.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace ebb::text::bpe
