// A file of tokens: its header, and the tokens window by window.
#include "text/data/token_file.h"

#include "fuzz/memory_files.h"
#include "fuzz/target.h"
#include "text/byte_tokenizer.h"
#include "text/data/item_file.h"

namespace ebb::fuzz {
namespace {

// Two bytes are an id of four; the input is read in windows.
constexpr Bytes kBytesPerByte = 16;
constexpr std::int64_t kWindow = 7;

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kBytesPerByte, [](std::string_view text) {
    const std::filesystem::path path = "data.tokens";
    MemoryFiles files({{path, text}});
    const text::ByteTokenizer bytes;
    const text::Encoding encoding{
        .tokenizer = &bytes, .vocabulary = bytes.vocabulary(), .loss_on_all = false, .chat = {}};
    const text::TokenLayout layout = text::read_token_layout(text::SourceFile(files, path));
    require(layout.tokens > 0 &&
                layout.begin + layout.tokens * layout.width <= static_cast<Bytes>(text.size()),
            "all tokens are in the file");
    const auto file = text::open_token_file(text::SourceFile(files, path), encoding, kWindow);
    std::int64_t tokens = 0;
    for (std::int64_t window = 0; window < file->items(); ++window) {
      const text::Item item = file->read(window, encoding);
      tokens += static_cast<std::int64_t>(item.tokens.size());
      for (const std::int32_t token : item.tokens) {
        require(text::id_of(token) < bytes.vocabulary(), "an id is in the vocabulary");
      }
    }
    require(tokens == layout.tokens, "windows are all of the tokens");
  });
}
