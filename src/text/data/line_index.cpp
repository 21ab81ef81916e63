#include "text/data/line_index.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/to_size.h"
#include "ebb/error.h"

namespace ebb::text {
namespace {

// Blocks read at once while the index is made.
constexpr Bytes kBlocksAtOnce = 32;

const char* find_line_feed(const char* begin, const char* end) {
  return static_cast<const char*>(std::memchr(begin, '\n', to_size(end - begin)));
}

[[noreturn]] void throw_long_line(const SourceFile& file, const LineEnds& ends, std::int64_t line) {
  throw FormatError(fmt::format(
      "{}, {} {}: the {} is longer than {}, the most that Ebb reads; {}split it into several",
      file.name(), ends.noun(), line, ends.noun(), format_bytes(LineIndex::kLongestLine),
      ends.of_rows() ? "close the quotes that it opens, or " : ""));
}

}  // namespace

const char* LineEnds::find(const char* begin, const char* end) {
  if (!separator_) return find_line_feed(begin, end);
  for (const char* at = begin; at < end; ++at) {
    const char c = *at;
    if (state_ == State::in_quotes) {
      if (c == '"') state_ = State::behind_quote;
      continue;
    }
    if (c == '\n') {
      state_ = State::field_begin;
      return at;
    }
    if (c == *separator_) {
      state_ = State::field_begin;
    } else if (c == '"' && state_ != State::in_field) {
      // Two of them in quotes are one that is meant.
      state_ = State::in_quotes;
    } else {
      state_ = State::in_field;
    }
  }
  return nullptr;
}

LineIndex::LineIndex(const SourceFile& file, Bytes begin, LineEnds ends, BadLines bad,
                     const IndexProgress& progress, Digest& digest)
    : begin_(begin), ends_(ends) {
  Bytes line_begin = begin;
  const auto require_short = [&](Bytes end) {
    if (bad == BadLines::refuse && end - line_begin > kLongestLine) {
      throw_long_line(file, ends_, lines_ + 1);
    }
  };
  const auto end_line = [&](Bytes end) {
    const Bytes bytes = end - line_begin;
    require_short(end);
    if (bytes <= kLongestLine) longest_ = std::max(longest_, bytes);
    line_begin = end + 1;
    ++lines_;
  };
  List<char> buffer(std::min(kBlocksAtOnce * kBlock, file.size() - begin));
  for (Bytes at = begin; at < file.size(); at += kBlocksAtOnce * kBlock) {
    const Bytes bytes = std::min(kBlocksAtOnce * kBlock, file.size() - at);
    const std::span<char> piece(buffer.data(), to_size(bytes));
    file.read(at, std::as_writable_bytes(piece));
    digest.add(std::as_bytes(piece));
    for (Bytes block = 0; block < bytes; block += kBlock) {
      line_feeds_before_.push_back(lines_);
      if (ends.of_rows()) states_.push_back(ends.state());
      const char* from = piece.data() + block;
      const char* end = piece.data() + std::min(block + kBlock, bytes);
      while (const char* feed = ends.find(from, end)) {
        end_line(at + (feed - piece.data()));
        from = feed + 1;
      }
    }
    require_short(at + bytes);
    if (progress) progress(at + bytes - begin);
  }
  if (line_begin < file.size()) end_line(file.size());
  line_feeds_before_.shrink_to_fit();
  states_.shrink_to_fit();
}

std::string LineIndex::read(const SourceFile& file, std::int64_t line) const {
  // The line feed that ends the line before is in the last block with fewer of them before it.
  std::int64_t block = 0;
  std::int64_t to_skip = 0;
  if (line > 0) {
    const auto after = std::ranges::lower_bound(line_feeds_before_, line);
    block = after - line_feeds_before_.begin() - 1;
    to_skip = line - line_feeds_before_[block];
  }
  std::string out;
  LineEnds ends = ends_;
  if (ends.of_rows()) ends.set(states_[block]);
  List<char> buffer(std::min(kBlock, file.size() - begin_));
  for (Bytes at = begin_ + block * kBlock; at < file.size(); at += kBlock) {
    const Bytes bytes = std::min(kBlock, file.size() - at);
    const std::span<char> piece(buffer.data(), to_size(bytes));
    file.read(at, std::as_writable_bytes(piece));
    const char* from = piece.data();
    const char* end = from + bytes;
    for (; to_skip > 0; --to_skip) {
      const char* feed = ends.find(from, end);
      if (feed == nullptr) {
        throw IoError(fmt::format(
            "{} has other lines than when the data was opened; leave the data as it is during a "
            "run, restore the file and resume",
            file.name()));
      }
      from = feed + 1;
    }
    const char* feed = ends.find(from, end);
    out.append(from, feed == nullptr ? end : feed);
    // One that is too long is not gathered: the memory is counted for the longest of the others.
    if (static_cast<Bytes>(out.size()) > longest_) throw_long_line(file, ends_, line + 1);
    if (feed != nullptr) break;
  }
  return out;
}

}  // namespace ebb::text
