#include "engine/model_tokenizer.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "text/byte_tokenizer.h"

namespace ebb::engine {

ModelTokenizer load_tokenizer(const std::filesystem::path& model_folder, const std::string& given) {
  const bool bytes = given == "bytes";
  const std::filesystem::path folder = given.empty() ? model_folder : std::filesystem::path(given);
  if (!bytes && !folder.empty() && text::has_tokenizer(folder)) {
    return {.parts = text::load_tokenizer(folder), .folder = folder};
  }
  if (!bytes && !given.empty()) {
    throw ConfigError(
        fmt::format("--tokenizer {}: there is no tokenizer.json in it; give a folder that has one, "
                    "or bytes",
                    given));
  }
  // A checkpoint without a tokenizer is of a run that had none; of other folders one is missing.
  const bool ours = model_folder.empty() || std::filesystem::exists(model_folder / "manifest.json");
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

ModelTokenizer find_tokenizer(const ModelSource& source, const std::string& given) {
  ModelTokenizer found = load_tokenizer(source.folder, given);
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

}  // namespace ebb::engine
