// Where the lines of a file begin: some bytes of memory for every block of it, so that files far
// bigger than memory can be read line by line in any order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/list.h"
#include "ebb/units.h"
#include "text/data/item_file.h"
#include "text/data/source_file.h"

namespace ebb::text {

// Finds where lines end, or rows of CSV: there what stands in quotes may have line feeds. Goes on
// from one piece of a file to the next.
class LineEnds {
 public:
  // With a separator of fields: rows of CSV.
  explicit LineEnds(std::optional<char> separator = {}) : separator_(separator) {}

  bool of_rows() const { return separator_.has_value(); }
  // For messages. Rows may go over several lines of the file, so people count them, the header's
  // included, as spreadsheets do.
  const char* noun() const { return of_rows() ? "row" : "line"; }

  // The first line feed in [begin, end) that ends one; nullptr where there is none.
  const char* find(const char* begin, const char* end);

  // Where within a row it is, to go on from there at another time.
  enum class State : std::uint8_t { field_begin, in_field, in_quotes, behind_quote };
  State state() const { return state_; }
  void set(State state) { state_ = state; }

 private:
  std::optional<char> separator_;
  State state_ = State::field_begin;
};

class LineIndex {
 public:
  // Longer lines are refused: one line is held in memory, with its tokens.
  static constexpr Bytes kLongestLine = 64 * kMiB;

  // Reads the file once, from `begin` on, and adds what it reads to `digest`. Throws FormatError
  // for a line that is too long, unless such are kept. A line feed at the end of the file ends the
  // last line and begins none. `ends` is as new.
  LineIndex(const SourceFile& file, Bytes begin, LineEnds ends, BadLines bad,
            const IndexProgress& progress, Digest& digest);

  std::int64_t lines() const { return lines_; }
  // Of those that are not too long.
  Bytes longest() const { return longest_; }
  Bytes memory_bytes() const {
    return static_cast<Bytes>(line_feeds_before_.size() * 8 + states_.size());
  }

  // The line's bytes without its line feed. Throws FormatError for one that is too long.
  std::string read(const SourceFile& file, std::int64_t line) const;

 private:
  // Of the file that is counted together, and read at once.
  static constexpr Bytes kBlock = 32 * kKiB;

  Bytes begin_;
  LineEnds ends_;
  // Before each block from begin_ on: line feeds that end a line; and of rows what the block begins
  // within.
  List<std::int64_t> line_feeds_before_;
  List<LineEnds::State> states_;
  std::int64_t lines_ = 0;
  Bytes longest_ = 0;
};

}  // namespace ebb::text
