// A model as GGUF: one file, or the parts NAME-00001-of-0000N.gguf of one.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "files/gguf/header.h"
#include "io/file_system.h"

namespace ebb::files {

struct GgufPart {
  std::unique_ptr<io::File> file;
  GgufHeader header;
};

// Open files whose headers were checked. Of several, on return from the constructor all are there,
// belong together and name no tensor twice; keys are those of the first. Anything else is a
// FormatError that names the file. Reads may come from several threads.
class GgufFiles {
 public:
  // Any part may be given.
  GgufFiles(io::FileSystem& files, const std::filesystem::path& path);

  const std::deque<GgufPart>& parts() const { return parts_; }
  const std::filesystem::path& path() const { return parts_.front().file->path(); }

  // A tensor with the part that holds it; null where there is none of that name.
  struct Place {
    const GgufPart* part = nullptr;
    const GgufTensor* tensor = nullptr;
  };
  Place find(std::string_view tensor) const;
  std::size_t tensor_count() const { return places_.size(); }

  // Values by their keys. Nothing (or the other value) where there is no such key; a FormatError
  // that names the key where it has another type.
  const GgufValue* find_value(std::string_view key) const;
  std::optional<std::string> try_text(std::string_view key) const;
  std::optional<std::int64_t> try_integer(std::string_view key) const;
  std::optional<double> try_number(std::string_view key) const;
  std::optional<bool> try_boolean(std::string_view key) const;
  // Entries of a list, and the bytes that they take in the file; 0 where there is no such list.
  std::int64_t count(std::string_view key) const;
  Bytes list_bytes(std::string_view key) const;
  // The texts of a list one by one, so that none need be kept.
  void visit_texts(std::string_view key, FunctionRef<void(std::string text)> visit) const;
  // Lists, read from the file; empty where there is no such key.
  std::vector<std::string> texts(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;

  // Throws FormatError: "'FILE': WHAT".
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  void open_others(io::FileSystem& files, std::int64_t count);
  const GgufList* find_list(std::string_view key, bool of_texts) const;

  std::deque<GgufPart> parts_;
  std::vector<Place> places_;  // sorted by name
};

}  // namespace ebb::files
