// The way back of gguf_tokenizer.h: a tokenizer's files as the keys of a GGUF file.
#pragma once

#include <string>
#include <vector>

#include "files/gguf/writer.h"
#include "files/model/source.h"
#include "files/model/tokenizer.h"
#include "io/file_system.h"

namespace ebb::files {

// The vocabulary with its types, merges or scores, how texts are split, special ids and the chat
// template. Ids up to the model's vocabulary that no token has get names that no text has. Bytes
// as tokens have no keys that others know: they are as no tokenizer, with a key of Ebb's. Throws
// FormatError that names what a GGUF file has no word for; adds what it says only in part to
// `warnings`.
void add_tokenizer_keys(io::FileSystem& files, const ModelTokenizer& tokenizer,
                        const ModelSource& source, GgufKeys& keys,
                        std::vector<std::string>& warnings);

// Others load such a file, for its logits.
void add_no_tokenizer(GgufKeys& keys);

}  // namespace ebb::files
