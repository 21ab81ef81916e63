#include "base/process_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "base/to_size.h"

namespace ebb {

ProcessMemory process_memory() {
  std::ifstream file("/proc/self/status");
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  return process_memory(status);
}

ProcessMemory process_memory(std::string_view status) {
  ProcessMemory memory;
  std::istringstream lines{std::string(status)};
  // "RssAnon:\t   12345 kB"
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    Bytes kilobytes = 0;
    if (!(words >> name >> kilobytes)) continue;
    if (name == "RssAnon:") memory.own += kilobytes * kKiB;
    if (name == "RssFile:" || name == "RssShmem:") memory.files += kilobytes * kKiB;
    if (name == "VmHWM:") memory.peak = kilobytes * kKiB;
  }
  return memory;
}

std::optional<Bytes> pages_touched(const void* data, Bytes bytes) {
  if (bytes == 0) return 0;
  const Bytes page = ::sysconf(_SC_PAGE_SIZE);
  std::vector<unsigned char> there(to_size((bytes + page - 1) / page));
  if (::mincore(const_cast<void*>(data), to_size(bytes), there.data()) != 0) {
    return std::nullopt;
  }
  return page * std::count_if(there.begin(), there.end(),
                              [](unsigned char state) { return (state & 1) != 0; });
}

}  // namespace ebb
