#include "fuzz/memory_files.h"

#include <algorithm>
#include <set>

#include "ebb/error.h"
#include "fuzz/target.h"

namespace ebb::fuzz {
namespace {

namespace fs = std::filesystem;

void refuse_change() { require(false, "reading changes nothing on disk"); }

class MemoryFile final : public io::File {
 public:
  MemoryFile(fs::path path, std::string_view text) : File(std::move(path)), text_(text) {}

  void read(Bytes offset, std::span<std::byte> to) override {
    const auto wanted = static_cast<Bytes>(to.size());
    require(offset >= 0 && wanted <= size() && offset <= size() - wanted,
            "reads stay inside the file");
    const auto from = std::as_bytes(std::span(text_)).subspan(static_cast<std::size_t>(offset));
    std::copy_n(from.begin(), to.size(), to.begin());
  }
  void write(Bytes, std::span<const std::byte>) override { refuse_change(); }
  void sync() override { refuse_change(); }
  io::FileStamp stamp() const override { return {.size = static_cast<Bytes>(text_.size())}; }

 private:
  std::string_view text_;
};

}  // namespace

MemoryFiles::MemoryFiles(std::map<fs::path, std::string_view> files) : files_(std::move(files)) {}

std::unique_ptr<io::File> MemoryFiles::open(const fs::path& path) {
  const auto found = files_.find(path);
  if (found == files_.end()) throw IoError("no such file");
  return std::make_unique<MemoryFile>(path, found->second);
}

std::unique_ptr<io::File> MemoryFiles::create(const fs::path&) {
  refuse_change();
  return nullptr;
}

bool MemoryFiles::exists(const fs::path& path) {
  return files_.contains(path) || is_directory(path);
}

bool MemoryFiles::is_directory(const fs::path& path) {
  return std::any_of(files_.begin(), files_.end(), [&](const auto& file) {
    const auto [in_path, in_file] =
        std::mismatch(path.begin(), path.end(), file.first.begin(), file.first.end());
    return in_path == path.end() && in_file != file.first.end();
  });
}

bool MemoryFiles::is_file(const fs::path& path) { return files_.contains(path); }
bool MemoryFiles::is_link(const fs::path&) { return false; }

std::vector<fs::path> MemoryFiles::list(const fs::path& directory) {
  std::set<fs::path> entries;
  for (const auto& [path, text] : files_) {
    const auto [in_folder, in_path] =
        std::mismatch(directory.begin(), directory.end(), path.begin(), path.end());
    if (in_folder == directory.end() && in_path != path.end()) entries.insert(directory / *in_path);
  }
  return {entries.begin(), entries.end()};
}

void MemoryFiles::make_directory(const fs::path&) { refuse_change(); }
void MemoryFiles::rename(const fs::path&, const fs::path&) { refuse_change(); }
void MemoryFiles::remove_all(const fs::path&) { refuse_change(); }
Bytes MemoryFiles::available(const fs::path&) { return 0; }
void MemoryFiles::sync_directory(const fs::path&) { refuse_change(); }

}  // namespace ebb::fuzz
