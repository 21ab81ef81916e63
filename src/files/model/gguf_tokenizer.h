// The tokenizer in a GGUF file, as the files that others keep it in.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/json_fwd.h"
#include "files/gguf/gguf_files.h"
#include "text/tokenizer_folder.h"

namespace ebb::files {

// tokenizer.ggml.token_type.
enum GgufTokenType : std::int32_t {
  kGgufNormalToken = 1,
  kGgufUnknownToken = 2,
  kGgufControlToken = 3,
  kGgufUserToken = 4,
  kGgufUnusedToken = 5,
  kGgufByteToken = 6
};

// What SentencePiece has for a space.
inline constexpr std::string_view kGgufSpace = "\u2581";

// Set to "bytes" where the tokens of a model without a tokenizer are bytes: Ebb's own key.
inline constexpr std::string_view kGgufBytesKey = "ebb.tokenizer";
bool gguf_tokens_are_bytes(const GgufFiles& files);

// tokenizer.json, tokenizer_config.json and, where the file has a template, chat_template.jinja.
// tokenizer.ggml.model may be gpt2 (byte-level BPE, with a tokenizer.ggml.pre that is known) or
// llama (SentencePiece's BPE: pieces with scores). Others are a FormatError, by name.
text::TokenizerTexts gguf_tokenizer(const GgufFiles& files);
// About what its vocabulary takes as text, known before any of it is read.
Bytes gguf_tokenizer_bytes(const GgufFiles& files);

// bos_token_id and eos_token_id, all that end a text or a turn, for a config.json.
void add_gguf_token_ids(const GgufFiles& files, Json& config);

}  // namespace ebb::files
