// Where the lines of a file begin: some bytes of memory for every block of it, so that files far
// bigger than memory can be read line by line in any order.
#pragma once

#include <cstdint>
#include <string>

#include "base/list.h"
#include "ebb/units.h"
#include "text/data/item_file.h"
#include "text/data/source_file.h"

namespace ebb::text {

class LineIndex {
 public:
  // Longer lines are refused: one line is held in memory, with its tokens.
  static constexpr Bytes kLongestLine = 64 * kMiB;

  // Reads the file once, from `begin` on, and adds what it reads to `digest`. Throws FormatError
  // for an empty line and for one that is too long, unless such are kept. A line feed at the end of
  // the file ends the last line and begins none.
  LineIndex(const SourceFile& file, Bytes begin, BadLines bad, const IndexProgress& progress,
            Digest& digest);

  std::int64_t lines() const { return lines_; }
  // Of those that are not too long.
  Bytes longest() const { return longest_; }
  Bytes memory_bytes() const { return static_cast<Bytes>(line_feeds_before_.size() * 8); }

  // The line's bytes without its line feed. Throws FormatError for one that is too long.
  std::string read(const SourceFile& file, std::int64_t line) const;

 private:
  // Of the file that is counted together, and read at once.
  static constexpr Bytes kBlock = 32 * kKiB;

  Bytes begin_;
  List<std::int64_t> line_feeds_before_;  // before each block from begin_ on
  std::int64_t lines_ = 0;
  Bytes longest_ = 0;
};

// Throws FormatError for a line without anything on it; lines count from 1.
[[noreturn]] void throw_blank_line(const SourceFile& file, std::int64_t line);

}  // namespace ebb::text
