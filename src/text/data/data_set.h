// Files and folders as one list of items, in any of the formats that Ebb reads: plain text, JSONL,
// CSV, files of tokens, compressed or not.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "text/data/documents.h"
#include "text/data/item_file.h"

namespace ebb::text {

struct DataOptions {
  // How much of a text is an item, and how many tokens of a file of tokens.
  Bytes passage_bytes = 4 * kKiB;
  std::int64_t window_tokens = 1024;
  // Items that cannot be used are skipped instead of ending the run, and so are files of lines none
  // of which can, and texts that are not UTF-8.
  bool skip_bad = false;
  // With skip_bad: such files of lines are kept, so that reading each line says what is wrong.
  bool keep_bad_files = false;
  // Of lines and rows.
  Columns columns = {};
  // Files and folders that are no data where a folder holds them.
  std::vector<std::filesystem::path> not_data = {};
  // Where compressed files are unpacked, and their text lies as long as the data is open; empty:
  // where the system has such files.
  std::filesystem::path unpack_in = {};
  // Told while compressed files are unpacked, and while JSONL files are looked through for their
  // lines, which takes a while for large ones.
  std::function<void(const std::filesystem::path& file, Bytes done, Bytes total)> progress = {};
};

// A file as a run remembers it.
struct FileRecord {
  std::string name;  // below the folder that was given, or its own
  Bytes bytes = 0;
  std::string digest;  // of all its bytes, 32 hexadecimal digits; empty: not known
  bool operator==(const FileRecord&) const = default;
};

// Keeps little of the files in memory, whatever their size. Immutable, so any number of threads may
// read at once.
class DataSet {
 public:
  // find_documents() says which files and in what order. A file is JSONL or CSV by its name, a file
  // of tokens by its first bytes, and text otherwise; a name says that it is compressed. Empty
  // files are skipped; so are files with NUL bytes in their first 8 KiB, which are neither, unless
  // given by name: that is a FormatError. Throws ConfigError where nothing is left, and what
  // ItemFile throws. Keeps a reference to `files`.
  DataSet(io::FileSystem& files, const std::vector<std::filesystem::path>& files_or_folders,
          Encoding encoding, const DataOptions& options);

  std::int64_t items() const { return items_; }
  // Throws FormatError for an item that cannot be used; where those are skipped, it has no tokens
  // and a problem instead.
  Item read(std::int64_t item) const;

  // The same for the same item of the same file wherever the data lies, whatever else is in it.
  std::uint64_t identity(std::int64_t item) const;

  // Each file's name, size and, where opening it read all of it, digest; see FileDigests.
  std::vector<FileRecord> records() const;
  const ItemFile& file_of(std::int64_t item) const { return *member_of(item).file; }
  const SourceFile& source(std::size_t file) const { return files_[file].file->file(); }

  // Of the tokenizer, and of every file's name, size and first 64 KiB: all that checkpoints kept
  // before they kept the digests of whole files. Reads the files' beginnings.
  std::string beginnings_digest() const;

  const Encoding& encoding() const { return encoding_; }
  const std::vector<SkippedFile>& skipped() const { return skipped_; }
  std::int64_t files() const { return static_cast<std::int64_t>(files_.size()); }
  // The first file of that form; nullptr where there is none.
  const ItemFile* find(Form form) const;

  std::int64_t most_tokens() const { return most_tokens_; }
  Bytes largest_item() const;
  // What is kept to find items.
  Bytes memory_bytes() const;
  // What compressed files take where they were unpacked.
  Bytes unpacked_bytes() const { return unpacked_.bytes(); }
  const std::filesystem::path& unpacked_in() const { return unpacked_.folder(); }

 private:
  struct Member {
    std::unique_ptr<ItemFile> file;
    std::string name;        // as DocumentPath's
    std::int64_t first = 0;  // of its items
    std::uint64_t key = 0;   // of its name
  };

  // nullptr for a file that is skipped.
  std::unique_ptr<ItemFile> open(io::FileSystem& files, const DocumentPath& found,
                                 const DataOptions& options);
  std::unique_ptr<ItemFile> open(SourceFile file, bool given, const DataOptions& options);
  std::unique_ptr<ItemFile> open_examples(SourceFile file, bool rows, const DataOptions& options);
  std::unique_ptr<ItemFile> open_text(SourceFile file, bool given, const DataOptions& options);
  const Member& member_of(std::int64_t item) const;

  Encoding encoding_;
  bool skip_bad_;
  UnpackedFiles unpacked_;
  std::vector<Member> files_;
  std::vector<SkippedFile> skipped_;
  std::int64_t items_ = 0;
  std::int64_t most_tokens_ = 0;
};

}  // namespace ebb::text
