#include "text/data/record_file.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "base/digest.h"
#include "base/json.h"
#include "base/to_size.h"
#include "ebb/error.h"
#include "text/data/csv.h"

namespace ebb::text {
namespace {

LineIndex make_index(const SourceFile& file, LineEnds ends, const ExampleOptions& options,
                     Digest& digest) {
  const Bytes begin = text_begin(file);
  const std::string mark = file.read(0, begin);
  digest.add(std::as_bytes(std::span(mark)));
  return LineIndex(file, begin, ends, options.bad, options.progress, digest);
}

class JsonlFile final : public RecordFile {
 public:
  JsonlFile(SourceFile file, const ExampleOptions& options)
      : RecordFile(std::move(file), LineEnds(), options) {
    find_layout(options, 0);
  }

 private:
  Json parse(const std::string& line, const std::string& where) const override {
    return parse_example(line, where);
  }
};

// The separator is found in a part of the file that surely holds the header, if it is CSV.
constexpr Bytes kHeaderBytes = 64 * kKiB;

char separator_of(const SourceFile& file) {
  const Bytes begin = text_begin(file);
  const std::string beginning = file.read(begin, std::min(kHeaderBytes, file.size() - begin));
  const std::size_t header = beginning.find_first_not_of(" \t\r\n");
  if (header == std::string::npos) return ',';
  return find_separator(std::string_view(beginning).substr(0, beginning.find('\n', header)));
}

class CsvFile final : public RecordFile {
 public:
  CsvFile(SourceFile file, const ExampleOptions& options)
      : CsvFile(separator_of(file), std::move(file), options) {}

 private:
  CsvFile(char separator, SourceFile&& file, const ExampleOptions& options)
      : RecordFile(std::move(file), LineEnds(separator), options), separator_(separator) {
    std::int64_t header = 0;
    std::string text;
    while (is_blank(text = record(header))) {
      if (++header == items()) {
        throw FormatError(fmt::format("{}: nothing is in it but blank lines", this->file().name()));
      }
    }
    names_ = split(text, where(header));
    find_layout(options, header + 1);
  }

  std::vector<std::string> split(std::string_view row, const std::string& where) const {
    if (row.ends_with('\r')) row.remove_suffix(1);
    check_utf8(row, where);
    return split_row(row, separator_, where);
  }

  Json parse(const std::string& row, const std::string& where) const override {
    std::vector<std::string> fields = split(row, where);
    if (fields.size() != names_.size()) {
      throw FormatError(fmt::format(
          "{}: {} field{}, but the header names {} columns; a field with a separator or a line "
          "feed in it must stand in quotes",
          where, fields.size(), fields.size() == 1 ? "" : "s", names_.size()));
    }
    Json example = Json::object();
    auto& members = example.get_ref<Json::object_t&>();
    for (std::size_t i = 0; i < fields.size(); ++i) {
      members.emplace_back(names_[i], std::move(fields[i]));
    }
    return example;
  }

  char separator_;
  std::vector<std::string> names_;
};

}  // namespace

RecordFile::RecordFile(SourceFile file, LineEnds ends, const ExampleOptions& options, Digest digest)
    : ItemFile(std::move(file)),
      rows_(ends.of_rows()),
      noun_(ends.noun()),
      index_(make_index(this->file(), ends, options, digest)),
      columns_(options.columns) {
  set_digest(digest.hex());
}

void RecordFile::find_layout(const ExampleOptions& options, std::int64_t header) {
  first_ = header;
  std::exception_ptr first;
  for (std::int64_t at = first_; at < index_.lines(); ++at) {
    try {
      const std::string text = record(at);
      if (is_blank(text)) continue;
      layout_ = layout_of(parse(text, where(at)), columns_, where(at));
      return;
    } catch (const FormatError&) {
      if (options.bad == BadLines::refuse) throw;
      if (!first) first = std::current_exception();
    }
  }
  if (first && options.bad == BadLines::keep_all) return;
  if (first) std::rethrow_exception(first);
  throw FormatError(
      fmt::format("{}: none of its {} {}s has anything on it", file().name(), items(), noun_));
}

std::string RecordFile::where(std::int64_t record) const {
  return fmt::format("{}, {} {}", file().name(), noun_, record + 1);
}

Item RecordFile::read(std::int64_t item, const Encoding& encoding) const {
  const std::int64_t at = first_ + item;
  const std::string text = record(at);
  if (is_blank(text)) return {};
  const std::string place = where(at);
  const Json example = parse(text, place);
  const Layout layout = layout_ ? *layout_ : layout_of(example, columns_, place);
  return encode_example(example, layout, encoding, place);
}

std::unique_ptr<ItemFile> open_jsonl(SourceFile file, const ExampleOptions& options) {
  return std::make_unique<JsonlFile>(std::move(file), options);
}

std::unique_ptr<ItemFile> open_csv(SourceFile file, const ExampleOptions& options) {
  return std::make_unique<CsvFile>(std::move(file), options);
}

}  // namespace ebb::text
