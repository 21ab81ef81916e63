// Files of tokens: Ebb's own, llm.c's and LLMQ's. All have a header that says how many tokens
// follow and how many bytes each has; numbers are little-endian.
//
// Ebb's: a header of 128 bytes, then the tokens.
//   0   8  "EBB.TOK\n"
//   8   4  version, 1
//   12  4  bytes a token: 2 or 4
//   16  8  tokens
//   24  4  the tokenizer's vocabulary
//   28  4  not used, 0
//   32  32 digest of the tokenizer, hexadecimal
//   64  64 not used, 0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/file_system.h"
#include "text/data/source_file.h"
#include "text/tokenizer.h"

namespace ebb::text {

inline constexpr Bytes kTokenHeaderBytes = 128;  // of Ebb's

struct TokenLayout {
  std::string_view format;  // "Ebb", "llm.c", "LLMQ"
  Bytes begin = 0;          // of the tokens
  Bytes width = 0;          // bytes a token
  std::int64_t tokens = 0;
  std::int64_t vocabulary = 0;     // 0: not said
  std::string tokenizer = {};      // its digest; empty: not said
  std::optional<Bytes> mask = {};  // LLMQ: where the bits begin that say which tokens carry loss
};

// Whether a file that begins with these bytes (up to 16 are looked at) is one.
bool is_token_file(std::string_view beginning);

// Throws FormatError for a version that is not known, and where the file is shorter or longer than
// the header says.
TokenLayout read_token_layout(const SourceFile& file);

// What Ebb's files keep of a tokenizer to know it again.
std::string tokenizer_mark(const Tokenizer& tokenizer);

// Writes one of Ebb's. It is published by finish(): until then it has another name, and a crash
// leaves nothing under its own.
class TokenFileWriter {
 public:
  TokenFileWriter(io::FileSystem& files, std::filesystem::path path, const Tokenizer& tokenizer);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  void write(std::span<const std::int32_t> ids);
  void finish();

  std::int64_t tokens() const { return tokens_; }
  Bytes width() const { return width_; }

 private:
  void flush();

  io::FileSystem& files_;
  std::filesystem::path path_;
  std::filesystem::path partial_;
  std::int32_t vocabulary_;
  std::string mark_;
  Bytes width_;
  std::unique_ptr<io::File> file_;
  std::vector<std::byte> buffer_;
  Bytes written_;
  std::int64_t tokens_ = 0;
};

}  // namespace ebb::text
