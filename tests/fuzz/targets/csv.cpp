// A CSV file of examples: its rows, its columns, and their tokens.
#include "base/json.h"
#include "ebb/error.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"
#include "text/byte_tokenizer.h"
#include "text/data/item_file.h"

namespace ebb::fuzz {
namespace {

// As of JSONL: a row, its fields, messages as JSON and tokens.
constexpr Bytes kBytesPerByte = 200;

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
    const std::filesystem::path path = "data.csv";
    MemoryFiles files({{path, text}});
    const text::ByteTokenizer bytes;
    const text::Encoding encoding{.tokenizer = &bytes,
                                  .vocabulary = bytes.vocabulary(),
                                  .loss_on_all = false,
                                  .chat = render};
    for (const text::Columns& columns :
         {text::Columns{}, text::Columns{.text = "a", .messages = {}}}) {
      std::unique_ptr<text::ItemFile> file;
      try {
        file = text::open_csv(text::SourceFile(files, path), {.columns = columns});
      } catch (const Error&) {
        // The other columns may do, and the last is judged below.
        if (!columns.text.empty()) throw;
        continue;
      }
      require(file->items() <= static_cast<std::int64_t>(text.size()), "a row is at least a byte");
      for (std::int64_t row = 0; row < file->items(); ++row) {
        const text::Item item = file->read(row, encoding);
        for (const std::int32_t token : item.tokens) {
          require(text::id_of(token) < bytes.vocabulary(), "an id is in the vocabulary");
        }
      }
    }
  });
}
