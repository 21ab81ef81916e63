// model.safetensors.index.json, and a folder with one of the files it may name.
#include "files/safetensors_index.h"

#include <string>

#include "files/manifest.h"
#include "files/weight_files.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"

namespace ebb::fuzz {
namespace {

// One file with the tensor t.
const std::string& shard() {
  static const std::string file = [] {
    std::string header = R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
    return std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + "x";
  }();
  return file;
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  shard();  // made before memory is counted
  return run(data, size, kJsonBytesPerByte, [](std::string_view text) {
    const files::SafetensorsIndex index = files::parse_index(text, "m/index");
    require(text.find('\0') == std::string_view::npos, "nothing is hidden behind a zero byte");
    require(!index.files.empty(), "an index names tensors");
    require(index.total_bytes.value_or(0) >= 0, "a size is from 0");
    for (const auto& [tensor, file] : index.files) {
      require(files::is_plain_name(file) && file.ends_with(".safetensors"),
              "a file lies in the model's folder");
    }

    MemoryFiles files({{"m/model.safetensors.index.json", text}, {"m/a.safetensors", shard()}});
    const files::WeightFiles weights(files, "m");
    require(index.files.size() == 1 && index.files.begin()->first == "t" &&
                index.files.begin()->second == "a.safetensors",
            "files that are missing or hold other tensors are refused");
  });
}
