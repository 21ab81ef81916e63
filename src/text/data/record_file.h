// Files of examples, one a record: a line of JSONL or a row of CSV.
#pragma once

#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "text/data/examples.h"
#include "text/data/item_file.h"
#include "text/data/line_index.h"

namespace ebb::text {

class RecordFile : public ItemFile {
 public:
  Form form() const override { return layout_ ? form_of(*layout_) : Form::texts; }
  std::int64_t items() const override { return index_.lines() - first_; }
  Bytes largest_item() const override { return index_.longest(); }
  // Quotes and keys of JSON are more bytes than what is added to a text, and rows have neither; a
  // chat template may add anything.
  std::int64_t most_tokens() const override {
    if (form() == Form::conversations) return kUncountedTokens;
    return file().size() + (rows_ ? 2 * items() : 0);
  }
  Bytes index_bytes() const override { return index_.memory_bytes(); }

  std::string place(std::int64_t item) const override { return where(first_ + item); }
  // A record with nothing on it is an item without tokens.
  Item read(std::int64_t item, const Encoding& encoding) const override;

 protected:
  RecordFile(SourceFile file, LineEnds ends, const ExampleOptions& options, Digest digest = {});

  // To be called when the file can parse its records, of which the first `header` are no items: the
  // first good one says what all are, as a mixture could not be packed one way.
  void find_layout(const ExampleOptions& options, std::int64_t header);

  // Of those that are no items, too.
  std::string record(std::int64_t record) const { return index_.read(file(), record); }
  std::string where(std::int64_t record) const;
  // The object that a record is.
  virtual Json parse(const std::string& record, const std::string& where) const = 0;

 private:
  bool rows_;
  const char* noun_;  // of a record, for messages
  LineIndex index_;
  Columns columns_;
  std::int64_t first_ = 0;  // record that is an item
  std::optional<Layout> layout_;
};

// Whether there is nothing on a line.
inline bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
}

}  // namespace ebb::text
