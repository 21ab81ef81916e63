// A safetensors file, through the reader that models and checkpoints come in by.
#include "files/safetensors.h"

#include <array>

#include "ebb/error.h"
#include "files/safetensors_header.h"
#include "fuzz/memory_files.h"
#include "fuzz/target.h"

namespace ebb::fuzz {
namespace {

using files::SafetensorsReader;
using files::StoredTensor;

void check_reads(const SafetensorsReader& reader, const StoredTensor& tensor) {
  std::array<std::byte, 1> byte{};
  if (tensor.bytes > 0) {
    reader.read(tensor, 0, byte);
    reader.read(tensor, tensor.bytes - 1, byte);
  }
  bool refused = false;
  try {
    reader.read(tensor, tensor.bytes, byte);
  } catch (const FormatError&) {
    refused = true;
  }
  require(refused, "reads past a tensor are refused");
}

// What was read can be written, and is then read as the same.
void check_round_trip(const SafetensorsReader& reader, Bytes data_bytes) {
  std::vector<files::TensorSpec> specs;
  for (const StoredTensor& tensor : reader.tensors()) {
    specs.push_back({tensor.name, tensor.type, tensor.shape});
  }
  const std::string text = files::format_header(specs, reader.metadata(), reader.path());
  const auto again = files::parse_header(text, data_bytes, reader.path());
  require(again.metadata == reader.metadata(), "metadata survives writing and reading");
  require(again.tensors.size() == specs.size(), "tensors survive writing and reading");
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const StoredTensor& tensor = again.tensors[i];
    require(tensor.name == specs[i].name && tensor.type == specs[i].type &&
                tensor.shape == specs[i].shape,
            "a tensor survives writing and reading");
  }
}

}  // namespace
}  // namespace ebb::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ebb;
  using namespace ebb::fuzz;
  return run(data, size, kJsonBytesPerByte, [](std::string_view text) {
    MemoryFiles files({{"model.safetensors", text}});
    const files::SafetensorsReader reader(files, "model.safetensors");
    const auto& tensors = reader.tensors();
    const auto file_bytes = static_cast<Bytes>(text.size());
    const Bytes first = tensors.empty() ? file_bytes : tensors.front().offset;
    require(first >= 8 && first <= file_bytes, "the data lies after the header, in the file");
    Bytes end = first;
    for (const files::StoredTensor& tensor : tensors) {
      require(tensor.offset == end && tensor.bytes >= 0 && tensor.bytes <= file_bytes - end,
              "tensors follow each other inside the file");
      require(files::try_bytes_of(tensor.type, tensor.shape) == tensor.bytes,
              "a tensor's size is its shape's");
      require(reader.find(tensor.name) == &tensor, "a tensor is found by its name");
      check_reads(reader, tensor);
      end += tensor.bytes;
    }
    require(end == file_bytes, "tensors cover the file");
    check_round_trip(reader, file_bytes - first);
  });
}
