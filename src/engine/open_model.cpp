#include "engine/open_model.h"

#include "base/to_size.h"

namespace ebb::engine {

Bytes OpenModel::rendering_bytes() const {
  return tokenizer.parts.chat ? static_cast<Bytes>(tokenizer.parts.chat->rendering_bytes()) : 0;
}

std::shared_ptr<const OpenModel> open_model(io::FileSystem& files, const std::string& model,
                                            const std::string& tokenizer, Bytes host_limit,
                                            int renderers) {
  auto opened = std::make_shared<OpenModel>();
  opened->source = files::find_model(files, model);
  opened->tokenizer = files::find_tokenizer(files, opened->source, tokenizer, host_limit);
  if (opened->tokenizer.parts.chat) {
    const Bytes rendering = files::rendering_memory(host_limit, renderers);
    opened->tokenizer.parts.chat->limit_memory(to_size(rendering));
  }
  return opened;
}

}  // namespace ebb::engine
