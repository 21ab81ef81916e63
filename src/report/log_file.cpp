#include "report/log_file.h"

#include <span>
#include <utility>

#include <fmt/format.h>

#include "ebb/error.h"

namespace ebb::report {

LogFile::LogFile(io::FileSystem& files, const std::filesystem::path& path, std::string_view kept,
                 Note note)
    : note_(std::move(note)) {
  // Later text goes into the same file under its new name.
  const std::filesystem::path fresh = path.string() + ".partial";
  file_ = files.create(fresh);
  file_->write(0, std::as_bytes(std::span(kept)));
  size_ = static_cast<Bytes>(kept.size());
  files.rename(fresh, path);
}

void LogFile::append(std::string_view text) {
  unwritten_ += text;
  try {
    file_->write(size_, std::as_bytes(std::span(unwritten_)));
  } catch (const IoError& error) {
    if (!std::exchange(told_, true)) {
      note_(fmt::format("The log has to wait, training goes on: {}", error.what()));
    }
    return;
  }
  size_ += static_cast<Bytes>(unwritten_.size());
  unwritten_.clear();
  told_ = false;
}

}  // namespace ebb::report
