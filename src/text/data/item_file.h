// A file of a data set, whatever its format: a list of items that can be read in any order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "ebb/units.h"
#include "text/data/item.h"
#include "text/data/source_file.h"

namespace ebb::text {

// Immutable once made, so several threads may read at once. What is wrong with the file is a
// FormatError that names the file, the place and what to do; a file that cannot be read, or is no
// longer what it was, an IoError.
class ItemFile {
 public:
  explicit ItemFile(SourceFile file) : file_(std::move(file)) {}
  virtual ~ItemFile() = default;

  const SourceFile& file() const { return file_; }
  // Keeps no descriptor: each read opens the file again.
  void close() { file_.close(); }

  // Of all bytes of the file; empty where opening it did not read them.
  const std::string& digest() const { return digest_; }
  void set_digest(std::string digest) { digest_ = std::move(digest); }

  virtual Form form() const = 0;
  virtual std::int64_t items() const = 0;
  virtual Item read(std::int64_t item, const Encoding& encoding) const = 0;

  // Where the item is, for messages: the file, and the line if it has lines.
  virtual std::string place(std::int64_t item) const {
    return file_.name() + ", part " + std::to_string(item + 1);
  }

  // Bytes of the file that an item takes at most.
  virtual Bytes largest_item() const = 0;
  // Of all items together; the count itself is known only after tokenizing.
  static constexpr std::int64_t kUncountedTokens = std::int64_t{1} << 60;
  virtual std::int64_t most_tokens() const = 0;
  // What is kept in memory to find items.
  virtual Bytes index_bytes() const { return 0; }

 private:
  SourceFile file_;
  std::string digest_;
};

// Told how many bytes of the file have been looked at.
using IndexProgress = std::function<void(Bytes done)>;

std::unique_ptr<ItemFile> open_passages(SourceFile file, Bytes passage_bytes);

// What becomes of lines that cannot be used.
enum class BadLines {
  refuse,    // the first that is found is an error
  keep,      // reading one is an error, finding it is none
  keep_all,  // so it is where all of them are bad, and reading each says why
};

// What holds the text or the messages of an example, where the user says so: a key of a line's
// object, a column of CSV. Both empty: what Ebb knows.
struct Columns {
  std::string text = {};
  std::string messages = {};
};

struct ExampleOptions {
  IndexProgress progress = {};
  BadLines bad = BadLines::refuse;
  Columns columns = {};
};

// Both read all of the file. They throw FormatError where nothing is in it, and where no line says
// what the lines are.
std::unique_ptr<ItemFile> open_jsonl(SourceFile file, const ExampleOptions& options);
// Rows with a header before them that names their columns.
std::unique_ptr<ItemFile> open_csv(SourceFile file, const ExampleOptions& options);
std::unique_ptr<ItemFile> open_token_file(SourceFile file, const Encoding& encoding,
                                          std::int64_t window_tokens);

}  // namespace ebb::text
