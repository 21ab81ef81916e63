// Data to train on: JSONL, texts, folders of them.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include <fmt/ranges.h>

#include "base/to_size.h"
#include "ebb/error.h"
#include "measure/inspect/report.h"
#include "text/byte_tokenizer.h"
#include "text/data/documents.h"
#include "text/data/examples.h"
#include "text/data/token_file.h"
#include "text/utf8_stream.h"

namespace ebb::measure {
namespace {

// Files can be of any size; people want an answer now, so only the beginning is read.
constexpr Bytes kScanBytes = 64 * kMiB;
constexpr Bytes kPieceBytes = kMiB;
constexpr std::size_t kMaxLineBytes = 16 << 20;
// The rest are counted: often one mistake is made in every line.
constexpr std::size_t kMostProblems = 5;

// Calls visit(piece) for the first kScanBytes; returns the bytes that were read.
Bytes scan(io::File& file, const std::function<void(std::string_view)>& visit) {
  const Bytes end = std::min(file.size(), kScanBytes);
  std::string piece;
  for (Bytes at = 0; at < end; at += static_cast<Bytes>(piece.size())) {
    piece.resize(to_size(std::min(end - at, kPieceBytes)));
    file.read(at, std::as_writable_bytes(std::span(piece)));
    visit(piece);
  }
  return end;
}

// Empty where all of it was read.
std::string share(Bytes scanned, Bytes all) {
  return scanned == all
             ? std::string()
             : fmt::format(" in the first {} of {}", format_bytes(scanned), format_bytes(all));
}

// Whether bytes are UTF-8, told piece by piece. A stream that replaces nothing gives back what it
// was fed, but for a character that is not complete yet.
class Utf8Check {
 public:
  void feed(std::string_view piece) {
    if (!good_) return;
    pending_ += piece;
    const std::string whole = stream_.feed(piece);
    good_ = pending_.starts_with(whole);
    pending_.erase(0, whole.size());
  }
  // A scan may stop within a character, a file may not.
  bool good(bool at_end) const { return good_ && (!at_end || pending_.empty()); }

 private:
  text::Utf8Stream stream_;
  std::string pending_;
  bool good_ = true;
};

// The form of a line in the words of people.
std::string_view name_of(text::Form form) {
  switch (form) {
    case text::Form::texts: return "text";
    case text::Form::completions: return "prompt and completion";
    case text::Form::conversations: return "messages";
    default: return "other";
  }
}

// The lines of a JSONL file, each read as training would read it. Only what the model brings is
// missing: bytes stand for its tokenizer, a plain list for its chat template.
class Lines {
 public:
  explicit Lines(std::string file) : file_(std::move(file)) {
    encoding_.tokenizer = &tokenizer_;
    encoding_.vocabulary = tokenizer_.vocabulary();
    encoding_.chat = [](const Json& messages, bool) {
      std::string text;
      for (const Json& message : messages) text += message.dump() + "\n";
      return text;
    };
  }

  void feed(std::string_view piece) {
    while (!piece.empty()) {
      const std::size_t end = piece.find('\n');
      // Beyond that the line is bad anyway, and need not be in memory: it grows by one piece more
      // at most.
      if (line_.size() <= kMaxLineBytes) line_ += piece.substr(0, end);
      if (end == std::string_view::npos) return;
      take();
      piece.remove_prefix(end + 1);
    }
  }
  // The last line may have no end.
  void finish() {
    if (!line_.empty()) take();
  }

  std::int64_t count() const { return count_; }
  std::optional<text::Form> form() const {
    return layout_ ? std::optional(text::form_of(*layout_)) : std::nullopt;
  }
  const std::map<std::string, std::int64_t>& keys() const { return keys_; }
  const std::vector<std::string>& problems() const { return problems_; }
  std::int64_t bad() const { return bad_; }

 private:
  void take() {
    ++count_;
    const std::string line = std::exchange(line_, {});
    const std::string where = fmt::format("'{}', line {}", file_, count_);
    try {
      if (line.size() > kMaxLineBytes) throw FormatError(where + ": longer than 16 MiB");
      if (line.find_first_not_of(" \t\r") == std::string::npos) return;
      const Json json = text::parse_example(line, where);
      for (const auto& [key, value] : json.items()) {
        // A file whose keys are all different would fill memory and screen.
        if (keys_.size() < 100 || keys_.contains(key)) ++keys_[key];
      }
      if (!layout_) layout_ = text::layout_of(json, {}, where);
      text::encode_example(json, *layout_, encoding_, where);
    } catch (const Error& error) {
      ++bad_;
      if (problems_.size() < kMostProblems) problems_.push_back(error.what());
    }
  }

  std::string file_;
  text::ByteTokenizer tokenizer_;
  text::Encoding encoding_;
  std::string line_;
  std::int64_t count_ = 0;
  std::int64_t bad_ = 0;
  std::optional<text::Layout> layout_;  // of the first good line, which all must have
  std::map<std::string, std::int64_t> keys_;
  std::vector<std::string> problems_;
};

}  // namespace

// Judges lines as training would; what the scan did not reach it does not know.
void describe_jsonl(Report& report, io::FileSystem& files, const std::filesystem::path& path) {
  const auto file = files.open(path);
  Lines lines(path.string());
  const Bytes scanned = scan(*file, [&](std::string_view piece) { lines.feed(piece); });
  // Where the scan stopped within a line, its rest is not known, and it is not judged.
  if (scanned == file->size()) lines.finish();
  report.json["kind"] = "jsonl";
  report.json["bytes"] = file->size();
  report.json["bytes_scanned"] = scanned;
  report.json["lines"] = lines.count();
  report.json["keys"] = lines.keys();
  report.json["form"] = lines.form() ? Json(name_of(*lines.form())) : Json();
  report.json["problems"] = lines.problems();
  report.json["bad_lines"] = lines.bad();
  report.line("JSONL: {} lines{}{}", lines.count(),
              lines.form() ? fmt::format(" of {}", name_of(*lines.form())) : "",
              share(scanned, file->size()));
  std::vector<std::string> keys;
  for (const auto& [key, count] : lines.keys()) keys.push_back(short_text(key));
  report.line("  keys: {}", fmt::join(keys, ", "));
  for (const std::string& problem : lines.problems()) report.line("  {}", problem);
  if (lines.count() == 0) {
    report.line("{}", scanned < file->size()
                          ? "Whether Ebb can train on it is not known: its first line goes on"
                          : "Ebb cannot train on it: it has no lines");
  } else if (lines.bad() == 0) {
    report.line("Ebb can train on it: --data {}", path.string());
  } else {
    report.line("Ebb cannot train on it as it is: {} lines are wrong; mend or remove them",
                lines.bad());
  }
}

// From the header: which ids are in it is not looked at.
void describe_tokens(Report& report, io::FileSystem& files, const std::filesystem::path& path) {
  const text::TokenLayout layout = text::read_token_layout(text::SourceFile(files, path));
  report.json["kind"] = "token file";
  report.json["format"] = layout.format;
  report.json["tokens"] = layout.tokens;
  report.json["bytes_a_token"] = layout.width;
  report.json["vocabulary"] = layout.vocabulary == 0 ? Json() : Json(layout.vocabulary);
  report.json["tokenizer"] = layout.tokenizer.empty() ? Json() : Json(layout.tokenizer);
  report.json["loss_mask"] = layout.mask.has_value();
  report.line("Token file of {}: {} tokens of {} bytes{}", layout.format, layout.tokens,
              layout.width, layout.mask ? ", with a mask of those that carry loss" : "");
  if (layout.vocabulary > 0) report.line("  ids below {}", layout.vocabulary);
  if (!layout.tokenizer.empty()) report.line("  made with tokenizer {}", layout.tokenizer);
  report.line("Ebb can train on it: --data {}", path.string());
}

void describe_text(Report& report, io::FileSystem& files, const std::filesystem::path& path) {
  const auto file = files.open(path);
  std::int64_t lines = 0;
  Utf8Check utf8;
  const Bytes scanned = scan(*file, [&](std::string_view piece) {
    lines += std::count(piece.begin(), piece.end(), '\n');
    utf8.feed(piece);
  });
  const bool good = utf8.good(scanned == file->size());
  report.json["kind"] = "text";
  report.json["bytes"] = file->size();
  report.json["bytes_scanned"] = scanned;
  report.json["lines"] = lines;
  report.json["utf8"] = good;
  report.line("Text: {}, {} line ends{}, {}", format_bytes(file->size()), lines,
              share(scanned, file->size()),
              good ? "valid UTF-8" : "not all of it is UTF-8: is it in another encoding?");
  report.line("Ebb can train on it: --data {}", path.string());
}

// By suffix, from names and sizes alone: a folder may hold a million files.
void describe_data_folder(Report& report, io::FileSystem& files,
                          const std::filesystem::path& folder) {
  const text::DocumentPaths documents = text::find_documents(files, {folder});
  struct Sum {
    std::int64_t count = 0;
    Bytes bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const text::DocumentPath& document : documents.found) {
    Sum& sum = sums[document.path.extension().string()];
    ++sum.count;
    sum.bytes += files.open(document.path)->size();
  }
  if (sums.empty()) {
    throw FormatError(fmt::format(
        "{}: there is neither a model (config.json) nor a checkpoint in this folder, and no file "
        "to train on. Give a model's folder, a run's, or one with data.",
        folder.string()));
  }
  report.json["kind"] = "folder of data";
  report.line("Folder with {} files, neither a model nor a run", documents.found.size());
  for (const auto& [suffix, sum] : sums) {
    report.line("  {} {}: {}", sum.count, suffix.empty() ? "without a suffix" : short_text(suffix),
                format_bytes(sum.bytes));
    report.json["files"][suffix] = {{"count", sum.count}, {"bytes", sum.bytes}};
  }
  for (const text::SkippedFile& skipped : documents.skipped) {
    report.line("  not read: {} ({})", short_text(skipped.path.string()), skipped.reason);
  }
  report.line("Ebb can train on texts in it: --data {}", folder.string());
}

}  // namespace ebb::measure
