#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/json.h"
#include "ebb/error.h"
#include "text/data/examples.h"
#include "text/data/item_file.h"
#include "text/data/line_index.h"

namespace ebb::text {
namespace {

class JsonlFile final : public ItemFile {
 public:
  JsonlFile(SourceFile file, const IndexProgress& progress, BadLines bad, Digest digest = {})
      : ItemFile(std::move(file)), index_(index(this->file(), progress, bad, digest)) {
    set_digest(digest.hex());
    find_form(bad);
  }

  Form form() const override { return form_; }
  std::int64_t items() const override { return index_.lines(); }
  Bytes largest_item() const override { return index_.longest(); }
  // Quotes and keys are more bytes than what is added to a text; a chat template may add anything.
  std::int64_t most_tokens() const override {
    return form_ == Form::conversations ? kUncountedTokens : file().size();
  }
  Bytes index_bytes() const override { return index_.memory_bytes(); }

  Item read(std::int64_t line, const Encoding& encoding) const override {
    return encode_example(parse(line), form_, encoding, where(line));
  }

 private:
  static LineIndex index(const SourceFile& file, const IndexProgress& progress, BadLines bad,
                         Digest& digest) {
    const Bytes begin = text_begin(file);
    const std::string mark = file.read(0, begin);
    digest.add(std::as_bytes(std::span(mark)));
    return LineIndex(file, begin, bad, progress, digest);
  }

  // The first line that can be read says what all are: a mixture could not be packed one way.
  void find_form(BadLines bad) {
    std::exception_ptr first;
    for (std::int64_t line = 0; line < index_.lines(); ++line) {
      try {
        form_ = form_of(parse(line), where(line));
        return;
      } catch (const FormatError&) {
        if (bad == BadLines::refuse) throw;
        if (!first) first = std::current_exception();
      }
    }
    if (first) std::rethrow_exception(first);
  }

  std::string where(std::int64_t line) const {
    return fmt::format("{}, line {}", file().name(), line + 1);
  }

  Json parse(std::int64_t line) const {
    const std::string text = index_.read(file(), line);
    if (text.find_first_not_of(" \t\r") == std::string::npos) throw_blank_line(file(), line + 1);
    return parse_example(text, where(line));
  }

  LineIndex index_;
  Form form_ = Form::texts;
};

}  // namespace

std::unique_ptr<ItemFile> open_jsonl(SourceFile file, const IndexProgress& progress, BadLines bad) {
  return std::make_unique<JsonlFile>(std::move(file), progress, bad);
}

}  // namespace ebb::text
