// A JSONL file of examples: its lines, what is on them, and their tokens.
#include <optional>

#include "base/json.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"
#include "text/byte_tokenizer.h"
#include "text/data/item_file.h"

namespace ebb::fuzz {
namespace {

// As for any JSON, and beside it the line, the rendered text twice and four bytes for each token in
// a vector that grows by doubling.
constexpr Bytes kBytesPerByte = 160;

// Long enough that what it adds is seen, short enough that it is not what takes the memory.
std::string render(const Json& messages, bool answer_next) {
  std::string text;
  for (const Json& message : messages) {
    text += message.at("role").get<std::string>() + ":" + message.at("content").get<std::string>();
  }
  return text + (answer_next ? "assistant:" : "");
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kBytesPerByte, [](std::string_view text) {
    const std::filesystem::path path = "data.jsonl";
    MemoryFiles files({{path, text}});
    const text::ByteTokenizer bytes;
    const text::Encoding encoding{.tokenizer = &bytes,
                                  .vocabulary = bytes.vocabulary(),
                                  .loss_on_all = false,
                                  .chat = render};
    const auto file = text::open_jsonl(text::SourceFile(files, path), {});
    require(file->items() <= static_cast<std::int64_t>(text.size()), "a line is at least a byte");
    require(file->index_bytes() <= static_cast<Bytes>(text.size()), "an index is small");
    for (std::int64_t line = 0; line < file->items(); ++line) {
      const text::Item item = file->read(line, encoding);
      if (item.tokens.empty()) continue;  // a blank line
      bool learns = false;
      for (const std::int32_t token : item.tokens) {
        require(text::id_of(token) < bytes.vocabulary(), "an id is in the vocabulary");
        learns = learns || token >= 0;
      }
      require(learns || file->form() == text::Form::conversations, "an example carries loss");
    }
  });
}
