// A checkpoint's manifest.json, and the check of a folder that holds one file besides.
#include "files/manifest.h"

#include <algorithm>
#include <set>

#include "ebb/error.h"
#include "files/folder.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"

namespace ebb::fuzz {
namespace {

constexpr std::string_view kContent = "abc";
constexpr std::string_view kContentDigest = "06b05ab6733a618578af5f94892f3950";

files::Manifest read(std::string_view text) {
  MemoryFiles files({{"run/step-00000020/manifest.json", text}});
  return files::read_manifest(files, "run/step-00000020");
}

bool same(const files::Manifest& a, const files::Manifest& b) {
  return a.version == b.version && a.step == b.step &&
         std::equal(a.files.begin(), a.files.end(), b.files.begin(), b.files.end(),
                    [](const auto& x, const auto& y) {
                      return x.name == y.name && x.bytes == y.bytes && x.digest == y.digest;
                    });
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kJsonBytesPerByte, [](std::string_view text) {
    const files::Manifest manifest = read(text);
    require(text.find('\0') == std::string_view::npos, "nothing is hidden behind a zero byte");
    require(manifest.step >= 0, "a step is from 0");
    std::set<std::string_view> names;
    for (const files::ManifestFile& file : manifest.files) {
      require(files::is_plain_name(file.name), "a file lies in the checkpoint's folder");
      require(names.insert(file.name).second, "a file is named once");
      require(file.bytes >= 0, "a size is from 0");
    }
    require(same(read(files::format_manifest(manifest)), manifest),
            "a manifest survives writing and reading");

    MemoryFiles files(
        {{"run/step-00000020/manifest.json", text}, {"run/step-00000020/a", kContent}});
    files::verify(files, "run/step-00000020");
    require(manifest.step == 20, "a manifest of another step is refused");
    for (const files::ManifestFile& file : manifest.files) {
      require(file.name == "a" && file.bytes == 3 && file.digest == kContentDigest,
              "files that are missing or differ are refused");
    }
  });
}
