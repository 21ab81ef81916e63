#include <array>
#include <cstring>

#include <fmt/format.h>

#include "base/digest.h"
#include "ebb/error.h"
#include "text/data/token_file.h"

namespace ebb::text {
namespace {

constexpr std::string_view kOurs = "EBB.TOK\n";
constexpr std::string_view kLlmq = "BIN.TOK\n";
constexpr std::int32_t kLlmcNarrow = 20240520;
constexpr std::int32_t kLlmcWide = 20240801;
constexpr Bytes kTheirHeader = 1024;

template <class Number>
Number number_at(std::string_view header, std::size_t offset) {
  Number number = 0;
  std::memcpy(&number, header.data() + offset, sizeof number);
  return number;
}

bool is_llmc(std::string_view beginning) {
  if (beginning.size() < 4) return false;
  const auto magic = number_at<std::int32_t>(beginning, 0);
  return magic == kLlmcNarrow || magic == kLlmcWide;
}

void require_version(const SourceFile& file, std::string_view format, std::int64_t found,
                     std::string_view expected, bool known) {
  if (known) return;
  throw FormatError(fmt::format(
      "{}: a token file of {}'s format, version {}; Ebb reads version {}. Make the file again, for "
      "example with: ebb tokenize",
      file.name(), format, found, expected));
}

std::string header_of(const SourceFile& file, std::string_view format, Bytes bytes) {
  if (file.size() >= bytes) return file.read(0, bytes);
  throw FormatError(fmt::format(
      "{}: a token file of {}'s format that ends at byte {}, inside its header of {}; it was cut "
      "short while it was written or copied: make it again",
      file.name(), format, file.size(), bytes));
}

TokenLayout read_ours(const SourceFile& file) {
  const std::string header = header_of(file, "Ebb", kTokenHeaderBytes);
  const auto version = number_at<std::uint32_t>(header, 8);
  require_version(file, "Ebb", version, "1", version == 1);
  // The digest is text; what is behind its end is zero.
  return {.format = "Ebb",
          .begin = kTokenHeaderBytes,
          .width = number_at<std::uint32_t>(header, 12),
          .tokens = number_at<std::int64_t>(header, 16),
          .vocabulary = number_at<std::uint32_t>(header, 24),
          .tokenizer = std::string(header.data() + 32, 32)};
}

TokenLayout read_llmq(const SourceFile& file) {
  const std::string header = header_of(file, "LLMQ", kTheirHeader);
  const auto version = number_at<std::int32_t>(header, 8);
  require_version(file, "LLMQ", version, "1 or 2", version == 1 || version == 2);
  TokenLayout layout{.format = "LLMQ",
                     .begin = kTheirHeader,
                     .width = number_at<std::int32_t>(header, 12),
                     .tokens = number_at<std::int32_t>(header, 16)};
  if (version == 2) {
    layout.vocabulary = number_at<std::int32_t>(header, 20);
    if (number_at<std::int32_t>(header, 24) != 0) {
      layout.mask = layout.begin + layout.width * layout.tokens;
    }
  }
  return layout;
}

TokenLayout read_llmc(const SourceFile& file) {
  const std::string header = header_of(file, "llm.c", kTheirHeader);
  const bool wide = number_at<std::int32_t>(header, 0) == kLlmcWide;
  const auto version = number_at<std::int32_t>(header, 4);
  require_version(file, "llm.c", version, wide ? "7" : "1", version == (wide ? 7 : 1));
  return {.format = "llm.c",
          .begin = kTheirHeader,
          .width = wide ? 4 : 2,
          .tokens = number_at<std::int32_t>(header, 8)};
}

}  // namespace

bool is_token_file(std::string_view beginning) {
  return beginning.starts_with(kOurs) || beginning.starts_with(kLlmq) || is_llmc(beginning);
}

TokenLayout read_token_layout(const SourceFile& file) {
  const std::string magic = header_of(file, "an unknown", 8);
  if (!is_token_file(magic)) {
    throw FormatError(fmt::format(
        "{}: this is no token file; expected the beginning of one of Ebb's, llm.c's or LLMQ's",
        file.name()));
  }
  const TokenLayout layout = magic == kOurs   ? read_ours(file)
                             : magic == kLlmq ? read_llmq(file)
                                              : read_llmc(file);
  const auto bad_header = [&](std::string_view what, std::int64_t found,
                              std::string_view expected) {
    throw FormatError(fmt::format("{}: its header says {} {}; expected {}. Make the file again",
                                  file.name(), found, what, expected));
  };
  if (layout.width != 2 && layout.width != 4) bad_header("bytes a token", layout.width, "2 or 4");
  // Compared by division: a header may say any number.
  if (layout.tokens < 1) bad_header("tokens", layout.tokens, "at least 1");
  if (layout.tokens > file.size() / layout.width) {
    bad_header("tokens", layout.tokens,
               fmt::format("at most {}, which is all that its {} bytes have room for",
                           (file.size() - layout.begin) / layout.width, file.size()));
  }
  const Bytes expected =
      layout.begin + layout.width * layout.tokens + (layout.mask ? (layout.tokens + 7) / 8 : 0);
  if (file.size() != expected) {
    throw FormatError(fmt::format(
        "{}: {} tokens of {} bytes{} behind a header of {} are {} bytes, found {}; the file was "
        "cut short or something was added to it: make it again",
        file.name(), layout.tokens, layout.width, layout.mask ? " and their mask" : "",
        layout.begin, expected, file.size()));
  }
  return layout;
}

std::string tokenizer_mark(const Tokenizer& tokenizer) {
  const std::string digest = tokenizer.digest();
  Digest mark;
  mark.add(std::as_bytes(std::span(digest)));
  return mark.hex();
}

}  // namespace ebb::text
