// Text files as one stream of tokens: each file is a document, and its tokens are followed by end
// of text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "text/data/documents.h"
#include "text/data/read_only_file.h"
#include "text/data/token_source.h"
#include "text/tokenizer.h"

namespace ebb::text {

// Keeps a few words per file and reads tokens from the files when they are asked for, which it can
// because a byte is a token. So it takes the byte tokenizer only; for others a token source over
// tokenized files is the way.
class TextFiles final : public TokenSource {
 public:
  // Looks at every file: find_documents() says which and in what order. Files that are empty, or
  // have NUL bytes in their first 8 KiB and so are no text, are skipped. Throws ConfigError where
  // no text is left, IoError for a file that cannot be read.
  TextFiles(const std::vector<std::filesystem::path>& files_or_folders, const Tokenizer& tokenizer);

  std::int64_t size() const override { return size_; }

  // A file that has become shorter than it was is an IoError; what was appended is not read.
  void read(std::int64_t first, std::span<std::int32_t> out) const override;

  // Of the tokenizer's name and every document's name, size and first 64 KiB: reading all of a
  // large data set for it would take minutes. A change further in that keeps the size goes unseen.
  std::string digest() const override { return digest_; }

  std::int64_t documents() const { return static_cast<std::int64_t>(documents_.size()); }
  const std::vector<SkippedFile>& skipped() const { return skipped_; }

 private:
  struct Document {
    std::filesystem::path path;
    std::int64_t first = 0;            // its first token in the stream
    std::int64_t bytes = 0;            // its text's tokens; end of text is one more
    std::optional<ReadOnlyFile> file;  // open already, for the first few documents
  };

  void read_text(const Document& document, std::int64_t offset, std::span<std::int32_t> out) const;

  std::int32_t end_of_text_;
  std::vector<Document> documents_;
  std::vector<SkippedFile> skipped_;
  std::int64_t size_ = 0;
  std::string digest_;
};

}  // namespace ebb::text
