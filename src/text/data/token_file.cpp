#include "text/data/token_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "base/list.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "text/data/item_file.h"

namespace ebb::text {
namespace {

class TokenFile final : public ItemFile {
 public:
  TokenFile(SourceFile file, const Encoding& encoding, std::int64_t window)
      : ItemFile(std::move(file)), layout_(read_token_layout(this->file())), window_(window) {
    if (!layout_.tokenizer.empty() && layout_.tokenizer != tokenizer_mark(*encoding.tokenizer)) {
      throw FormatError(fmt::format(
          "{}: it was made with another tokenizer (of {} tokens) than '{}' (of {}), which is in "
          "use; make it again with this one, or choose the other with --tokenizer",
          this->file().name(), layout_.vocabulary, encoding.tokenizer->name(),
          encoding.tokenizer->vocabulary()));
    }
  }

  Form form() const override { return Form::windows; }
  std::int64_t items() const override { return (layout_.tokens + window_ - 1) / window_; }
  Bytes largest_item() const override {
    return std::min(window_ + 1, layout_.tokens) * layout_.width;
  }
  std::int64_t most_tokens() const override { return layout_.tokens; }

  Item read(std::int64_t item, const Encoding& encoding) const override {
    const std::int64_t first = item * window_;
    const std::int64_t count = std::min(window_, layout_.tokens - first);
    const bool goes_on = first + count < layout_.tokens;
    Item out;
    out.tokens = read_ids(first, count + (goes_on ? 1 : 0), encoding);
    if (goes_on) {
      out.next = target_of(out.tokens.back());
      out.tokens.pop_back();
    } else if (id_of(out.tokens.back()) != encoding.tokenizer->end_of_text()) {
      out.next = Item::kUnknown;
    }
    return out;
  }

 private:
  std::vector<std::int32_t> read_ids(std::int64_t first, std::int64_t count,
                                     const Encoding& encoding) const {
    const Bytes offset = layout_.begin + first * layout_.width;
    const std::string bytes = file().read(offset, count * layout_.width);
    const std::vector<bool> counts = read_mask(first, count, encoding);
    std::vector<std::int32_t> ids(to_size(count));
    for (std::size_t i = 0; i < ids.size(); ++i) {
      std::uint32_t id = 0;
      const auto width = to_size(layout_.width);
      std::memcpy(&id, bytes.data() + i * width, width);
      if (id >= static_cast<std::uint32_t>(encoding.vocabulary)) {
        throw FormatError(fmt::format(
            "{}, offset {}: token {} is the id {}, outside the model's vocabulary of {}; was the "
            "file made with the tokenizer of another model?",
            file().name(), offset + static_cast<Bytes>(i) * layout_.width,
            first + static_cast<std::int64_t>(i) + 1, id, encoding.vocabulary));
      }
      ids[i] = static_cast<std::int32_t>(id);
      if (!counts.empty() && !counts[i]) ids[i] = ~ids[i];
    }
    return ids;
  }

  // Empty where every token carries loss.
  std::vector<bool> read_mask(std::int64_t first, std::int64_t count,
                              const Encoding& encoding) const {
    if (!layout_.mask || encoding.loss_on_all) return {};
    const std::string bits =
        file().read(*layout_.mask + first / 8, (first + count + 7) / 8 - first / 8);
    List<bool> counts(count);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t bit = first % 8 + i;
      counts[i] = ((static_cast<unsigned char>(bits[to_size(bit / 8)]) >> (bit % 8)) & 1) != 0;
    }
    return counts;
  }

  TokenLayout layout_;
  std::int64_t window_;
};

// Bytes gathered before they are written.
constexpr std::size_t kBufferBytes = 1 << 20;

}  // namespace

std::unique_ptr<ItemFile> open_token_file(SourceFile file, const Encoding& encoding,
                                          std::int64_t window_tokens) {
  return std::make_unique<TokenFile>(std::move(file), encoding, window_tokens);
}

TokenFileWriter::TokenFileWriter(io::FileSystem& files, std::filesystem::path path,
                                 const Tokenizer& tokenizer)
    : files_(files),
      path_(std::move(path)),
      partial_(path_.string() + ".partial"),
      vocabulary_(tokenizer.vocabulary()),
      mark_(tokenizer_mark(tokenizer)),
      width_(vocabulary_ - 1 <= std::numeric_limits<std::uint16_t>::max() ? 2 : 4),
      file_(files.create(partial_)),
      written_(kTokenHeaderBytes) {
  buffer_.reserve(kBufferBytes);
}

TokenFileWriter::~TokenFileWriter() {
  if (!file_) return;
  file_.reset();
  try {
    files_.remove_all(partial_);
  } catch (...) {
    // The error that kept it from being finished is the one to report.
  }
}

void TokenFileWriter::write(std::span<const std::int32_t> ids) {
  for (const std::int32_t id : ids) {
    if (buffer_.size() + to_size(width_) > kBufferBytes) flush();
    std::byte bytes[4];
    std::memcpy(bytes, &id, 4);
    buffer_.insert(buffer_.end(), bytes, bytes + width_);
  }
  tokens_ += static_cast<std::int64_t>(ids.size());
}

void TokenFileWriter::flush() {
  file_->write(written_, buffer_);
  written_ += static_cast<Bytes>(buffer_.size());
  buffer_.clear();
}

void TokenFileWriter::finish() {
  flush();
  std::string header(to_size(kTokenHeaderBytes), '\0');
  const auto put = [&](std::size_t offset, auto number) {
    std::memcpy(header.data() + offset, &number, sizeof number);
  };
  header.replace(0, 8, "EBB.TOK\n");
  put(8, std::uint32_t{1});
  put(12, static_cast<std::uint32_t>(width_));
  put(16, static_cast<std::uint64_t>(tokens_));
  put(24, static_cast<std::uint32_t>(vocabulary_));
  header.replace(32, mark_.size(), mark_);
  file_->write(0, std::as_bytes(std::span(header)));
  file_->sync();
  files_.rename(partial_, path_);
  file_.reset();
  files_.sync_directory(io::parent_of(path_));
}

}  // namespace ebb::text
