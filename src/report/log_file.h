// A file that grows line by line beside a run, which goes on whatever becomes of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/note.h"
#include "io/file_system.h"

namespace ebb::report {

class LogFile {
 public:
  // Begins with `kept`. What had the name is replaced at once: emptied in place, a run that is
  // killed here would lose what it keeps. Throws IoError.
  LogFile(io::FileSystem& files, const std::filesystem::path& path, std::string_view kept,
          Note note);

  // Where it cannot be written (a full disk) that is told once, and it is tried again with the next
  // text.
  void append(std::string_view text);

 private:
  Note note_;
  std::unique_ptr<io::File> file_;
  Bytes size_ = 0;
  std::string unwritten_;
  bool told_ = false;
};

}  // namespace ebb::report
