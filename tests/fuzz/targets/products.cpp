// products.json: the choices of matrix algorithms that a machine keeps.
#include <algorithm>

#include "engine/gemm_cache_file.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"

namespace ebb::fuzz {
namespace {

// As for any JSON; then it is written, read again and taken apart.
constexpr Bytes kBytesPerByte = 120;

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kBytesPerByte, [](std::string_view text) {
    std::size_t notes = 0;
    const auto note = [&](const std::string& words) {
      ++notes;
      require(words.size() <= 2000 && std::all_of(words.begin(), words.end(),
                                                  [](char c) {
                                                    return static_cast<unsigned char>(c) >= 0x20 &&
                                                           c != 0x7f;
                                                  }),
              "a note can be printed");
    };
    MemoryFiles files({{"products.json", text}});
    const Json all = engine::read_gemm_cache_file(files, "products.json", note);
    require(all.is_object(), "a file that cannot be read counts as an empty one");
    require(notes == 0 || (notes == 1 && all.empty()), "a file is refused once and as a whole");
    for (const auto& [conditions, choices] : all.items()) {
      const auto texts = engine::choices_of(choices);
      require(texts.size() <= choices.size(), "choices are those of the file");
    }
    const std::string written = all.dump(1);
    MemoryFiles again({{"products.json", written}});
    require(engine::read_gemm_cache_file(again, "products.json", note) == all,
            "choices survive writing and reading");
  });
}
