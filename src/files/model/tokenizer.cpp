#include "files/model/tokenizer.h"

#include <malloc.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/heap_bytes.h"
#include "ebb/error.h"
#include "files/model/gguf_tokenizer.h"
#include "text/byte_tokenizer.h"

namespace ebb::files {
namespace {

// While tokenizer.json is read its text, its values and what is made of them are there at once: 8
// to 12 times its bytes with vocabularies of 150,000 tokens, 20 where all tokens are short.
constexpr Bytes kReadingFactor = 24;

void check_room(const std::filesystem::path& file, Bytes bytes, Bytes host_limit) {
  if (bytes <= host_limit / kReadingFactor) return;
  throw OutOfBudget(
      fmt::format("{}: reading its {} takes about {} of host memory, and the limit is {}; give a "
                  "--host-memory of at least {}, or a smaller tokenizer",
                  file.string(), format_bytes(bytes), format_bytes(kReadingFactor * bytes),
                  format_bytes(host_limit), format_bytes(kReadingFactor * bytes + kMiB)),
      {{"host", kReadingFactor * bytes, host_limit}},
      {"a higher --host-memory", "a smaller tokenizer"});
}

Bytes bytes_of(const std::shared_ptr<const text::TokenizerTexts>& texts) {
  Bytes bytes = 0;
  if (texts == nullptr) return bytes;
  for (const auto& [name, text] : *texts) bytes += heap_bytes(text);
  return bytes;
}

ModelTokenizer load_gguf_tokenizer(io::FileSystem& files, const std::filesystem::path& file,
                                   Bytes host_limit) {
  const GgufFiles gguf(files, file);
  if (gguf_tokens_are_bytes(gguf)) {
    ModelTokenizer bytes;
    bytes.parts.tokenizer = std::make_unique<text::ByteTokenizer>();
    return bytes;
  }
  ModelTokenizer found{.parts = {}, .folder = file};
  check_room(file, gguf_tokenizer_bytes(gguf), host_limit);
  found.made = std::make_shared<const text::TokenizerTexts>(gguf_tokenizer(gguf));
  // Pieces with scores are written out as more than they were.
  check_room(file, static_cast<Bytes>(found.made->at(text::kTokenizerFile).size()), host_limit);
  found.parts = text::make_tokenizer(*found.made, file);
  ::malloc_trim(0);
  return found;
}

}  // namespace

Bytes ModelTokenizer::memory_bytes() const {
  return tokenizer().memory_bytes() + tokenizer().encoding_bytes() +
         (parts.chat ? static_cast<Bytes>(parts.chat->memory_bytes()) : 0) + bytes_of(made);
}

Bytes rendering_memory(Bytes host_limit, int renderers) {
  return std::clamp(host_limit / 16 / renderers, kMiB, 16 * kMiB);
}

ModelTokenizer load_tokenizer(io::FileSystem& files, const std::filesystem::path& model_folder,
                              const std::string& given, Bytes host_limit) {
  const bool bytes = given == "bytes";
  const std::filesystem::path folder = given.empty() ? model_folder : std::filesystem::path(given);
  if (!bytes && !folder.empty() && text::has_tokenizer(files, folder)) {
    const std::filesystem::path file = folder / text::kTokenizerFile;
    check_room(file, files.open(file)->size(), host_limit);
    ModelTokenizer found{.parts = text::load_tokenizer(files, folder), .folder = folder};
    ::malloc_trim(0);  // the file's values are gone, and should be for the system too
    return found;
  }
  if (!bytes && !given.empty()) {
    throw ConfigError(
        fmt::format("--tokenizer {}: there is no tokenizer.json in it; give a folder that has one, "
                    "or bytes",
                    given));
  }
  // A checkpoint without a tokenizer is of a run that had none; of other folders one is missing.
  const bool ours = model_folder.empty() || files.exists(model_folder / "manifest.json");
  if (!bytes && !ours) {
    throw ConfigError(fmt::format(
        "{}: there is no tokenizer.json in the model's folder. Give one with --tokenizer FOLDER "
        "(transformers' AutoTokenizer.from_pretrained(...).save_pretrained(FOLDER) makes it from "
        "other tokenizer files), or say --tokenizer bytes to take every byte for a token",
        model_folder.string()));
  }
  ModelTokenizer found;
  found.parts.tokenizer = std::make_unique<text::ByteTokenizer>();
  return found;
}

ModelTokenizer find_tokenizer(io::FileSystem& files, const ModelSource& source,
                              const std::string& given, Bytes host_limit) {
  ModelTokenizer found = given.empty() && !source.file.empty()
                             ? load_gguf_tokenizer(files, source.file, host_limit)
                             : load_tokenizer(files, source.folder, given, host_limit);
  const std::int64_t ids = found.tokenizer().vocabulary();
  if (ids <= source.config.vocabulary) return found;
  throw ConfigError(fmt::format(
      "{}: the model's vocabulary of {} (vocab_size) is too small for the tokenizer's {} ({}); "
      "give the tokenizer that belongs to the model (--tokenizer FOLDER), or a model whose "
      "vocab_size is at least {}",
      source.folder.empty() ? source.name : (source.folder / "config.json").string(),
      source.config.vocabulary, ids,
      found.folder.empty() ? "bytes, as the model brings no tokenizer.json"
                           : (found.folder / "tokenizer.json").string(),
      ids));
}

}  // namespace ebb::files
