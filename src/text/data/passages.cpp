// A text file, cut into passages that can be found without an index: each has a stretch of the file
// of fixed size, and begins at the best place to cut at in its stretch.
#include <algorithm>
#include <utility>

#include "base/to_size.h"
#include "base/utf8.h"
#include "text/data/item_file.h"

namespace ebb::text {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// Where in `text`, not before 1, a tokenizer would cut anyway: before a line that is not indented;
// or else before any line, before a space, between characters. The byte before `text`'s first place
// is its byte 0.
std::size_t best_cut(std::string_view text) {
  std::size_t line = 0;
  std::size_t word = 0;
  std::size_t character = 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    const bool begins_line = text[i - 1] == '\n';
    if (begins_line && !is_space(text[i])) return i;
    if (begins_line && line == 0) line = i;
    if (word == 0 && text[i] == ' ' && !is_space(text[i - 1])) word = i;
    if (character == 0 && !!utf8::begins_character(text[i])) character = i;
  }
  return line != 0 ? line : word != 0 ? word : std::max<std::size_t>(character, 1);
}

class Passages final : public ItemFile {
 public:
  Passages(SourceFile file, Bytes passage_bytes)
      : ItemFile(std::move(file)), stretch_(passage_bytes), begin_(text_begin(this->file())) {}

  Form form() const override { return Form::passages; }
  // A file of nothing but a mark is one passage without text.
  std::int64_t items() const override {
    return std::max<std::int64_t>(1, (text_bytes() + stretch_ - 1) / stretch_);
  }
  Bytes largest_item() const override { return std::min(2 * stretch_, file().size()); }
  std::int64_t most_tokens() const override { return text_bytes() + 1; }

  Item read(std::int64_t item, const Encoding& encoding) const override {
    const bool first = item == 0;
    const bool last = item + 1 == items();
    // With the byte before its stretch, to know whether a line begins there, and with all of the
    // next stretch, somewhere in which the next passage begins.
    const Bytes from = first ? 0 : item * stretch_ - 1;
    const Bytes own_end = std::min((item + 1) * stretch_, text_bytes());
    const Bytes to = std::min((item + 2) * stretch_, text_bytes());
    const std::string both = file().read(begin_ + from, to - from);
    const std::string_view text = both;
    const std::size_t own = to_size(own_end - from);
    const std::size_t begin = first ? 0 : best_cut(text.substr(0, own));
    const std::size_t end = last ? text.size() : own - 1 + best_cut(text.substr(own - 1));

    const Tokenizer& tokenizer = *encoding.tokenizer;
    Item out;
    const auto append = [&](const std::vector<std::int32_t>& ids) {
      out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
    };
    if (first) append(tokenizer.prefix());
    const std::string_view passage = text.substr(begin, end - begin);
    append(first ? tokenizer.encode(passage) : tokenizer.encode_next(passage));
    if (last) append(ending(tokenizer));
    out.next = last ? Item::kNextItem : Item::kUnknown;
    return out;
  }

 private:
  Bytes text_bytes() const { return file().size() - begin_; }

  Bytes stretch_;
  Bytes begin_;  // of the text
};

}  // namespace

std::unique_ptr<ItemFile> open_passages(SourceFile file, Bytes passage_bytes) {
  return std::make_unique<Passages>(std::move(file), passage_bytes);
}

}  // namespace ebb::text
