#include "engine/model_tokenizer.h"

#include <fmt/format.h>

#include "ebb/error.h"
#include "text/byte_tokenizer.h"

namespace ebb::engine {
namespace {

ModelTokenizer load(const ModelSource& source, const std::string& given) {
  const std::filesystem::path folder = given.empty() ? source.folder : std::filesystem::path(given);
  if (!folder.empty() && text::has_tokenizer(folder)) {
    return {.parts = text::load_tokenizer(folder), .folder = folder};
  }
  if (!given.empty()) {
    throw ConfigError(fmt::format(
        "--tokenizer {}: there is no tokenizer.json in it; give a folder that has one", given));
  }
  ModelTokenizer bytes;
  bytes.parts.tokenizer = std::make_unique<text::ByteTokenizer>();
  return bytes;
}

}  // namespace

ModelTokenizer find_tokenizer(const ModelSource& source, const std::string& given) {
  ModelTokenizer found = load(source, given);
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
